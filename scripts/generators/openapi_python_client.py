"""Starts and lists a run with the client that openapi-python-client has generated."""

import os

from everstep_client import AuthenticatedClient
from everstep_client.api.runs import get_run, list_runs, start_run
from everstep_client.api.workflows import save_workflow
from everstep_client.models import Definition, OfWorkflow, Started

GRAPH = {
    "nodes": [{"id": "start", "type": "start"}, {"id": "end", "type": "end"}],
    "edges": [{"source": "start", "target": "end"}],
}

client = AuthenticatedClient(
    base_url=os.environ["EVERSTEP_URL"], token=os.environ["EVERSTEP_API_KEY"], raise_on_unexpected_status=True
)
saved = save_workflow.sync_detailed("from-python", client=client, body=Definition.from_dict(GRAPH))
assert saved.status_code == 201, saved
started = start_run.sync("from-python", client=client, body=OfWorkflow(input_={"amount": 20}), wait_seconds=30)
assert isinstance(started, Started), started
assert started.created and started.run.status == "completed", started
listed = list_runs.sync(client=client, workflow="from-python")
assert [run.id for run in listed.runs] == [started.run.id], listed
assert get_run.sync(started.run.id, client=client).input_ == {"amount": 20}
