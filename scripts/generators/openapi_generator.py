"""Starts and lists a run with the Python client that openapi-generator has generated."""

import os

import everstep_generated as everstep

GRAPH = {
    "nodes": [{"id": "start", "type": "start"}, {"id": "end", "type": "end"}],
    "edges": [{"source": "start", "target": "end"}],
}

configuration = everstep.Configuration(
    host=os.environ["EVERSTEP_URL"], access_token=os.environ["EVERSTEP_API_KEY"]
)
with everstep.ApiClient(configuration) as client:
    everstep.WorkflowsApi(client).save_workflow("from-openapi-generator", everstep.Definition.from_dict(GRAPH))
    runs = everstep.RunsApi(client)
    start = everstep.OfWorkflow(input={"amount": 20})
    started = runs.start_run("from-openapi-generator", wait_seconds=30, of_workflow=start)
    assert started.created and started.run.status == "completed", started
    listed = runs.list_runs(workflow="from-openapi-generator")
    assert [run.id for run in listed.runs] == [started.run.id], listed
    assert runs.get_run(started.run.id).input == {"amount": 20}
