"""Something to ask about: without it nearly every path would lead nowhere.

Of the names and ids that are made up, every second valid one is replaced by one that is there.
"""

import json
import os
import re
import urllib.request
import uuid

import schemathesis

URL = os.environ["EVERSTEP_URL"]
KEY = os.environ["EVERSTEP_KEY"]
FIELDS = [("id", str), ("type", str), ("config", dict), ("source", str), ("target", str)]
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,127}")
SESSION = re.compile(r"[0-9a-f]{32}\.[0-9a-f]{32}")


def ask(method, path, body):
    headers = {"x-api-key": KEY, "content-type": "application/json"}
    body = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, body, headers, method=method)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def graph(*middle):
    nodes = [{"id": "start", "type": "start"}, *middle, {"id": "end", "type": "end"}]
    edges = [{"source": one["id"], "target": two["id"]} for one, two in zip(nodes, nodes[1:])]
    return {"nodes": nodes, "edges": edges}


def start(name):
    return ask("POST", f"/v1/workflows/{name}/runs", {"input": {"amount": 20}})["run"]["id"]


def seed():
    """Workflows, of which one is always in use, and runs of them that wait, have completed and have failed."""
    waits = {"id": "wait", "type": "wait", "config": {"event": "go"}}
    fails = {"id": "fail", "type": "noop", "config": {"fail": "no"}, "retry": {"maxAttempts": 1}}
    ask("PUT", "/v1/workflows/order", graph(waits))
    ask("PUT", "/v1/workflows/done", graph({"id": "a", "type": "noop"}))
    ask("PUT", "/v1/workflows/broken", graph(fails))
    start("order")
    return [(name, start(name)) for _ in range(8) for name in ["order", "done", "broken"]]


def session():
    served = [{"name": "served", "version": 1}]
    hello = {"protocol": 1, "worker": "hooks", "capacity": 0, "workflows": served}
    return ask("POST", "/v1/worker/sessions", hello)["session"]


def records():
    """Records and links in one namespace, with their ids."""
    for number, key in enumerate(STORED):
        ask("PUT", f"/v1/store/order/{key}", {"value": number})
    sides = [({"type": "order", "id": str(number)}, {"type": "person", "id": "ann"}) for number in range(8)]
    return [ask("POST", "/v1/links/order", {"from": one, "to": two})["linkId"] for one, two in sides]


def events():
    """Events of one topic, and subscriptions to it, with their ids."""
    path = "/v1/topics/order.paid/subscriptions"
    made = [ask("POST", path, {"type": "workflow", "name": "done"})["id"] for _ in range(8)]
    sent = [ask("POST", "/v1/topics/order.paid", {"order": number})["id"] for number in range(8)]
    return sent, made


STORED = ["a", "b", "c", "d"]
RUNS = seed()
LINKS = records()
EVENTS, SUBSCRIPTIONS = events()
SESSIONS = [session() for _ in range(8)]
KINDS = [kind["name"] for kind in ask("GET", "/v1/catalog", None)["kinds"]]
OWN = ask("GET", "/v1/me", None)["key"]["id"]


def known(values, text):
    """One of the values, or none for every second text."""
    number = sum(text.encode())
    return values[number // 2 % len(values)] if number % 2 else None


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    path = context.operation.path if context.operation else ""
    places = path_parameters or {}
    name, run, kind = places.get("name"), places.get("id"), places.get("kind")
    namespace, key = places.get("namespace"), places.get("key")
    if isinstance(namespace, str):
        places["namespace"] = known(["order"], namespace) or namespace
    if isinstance(key, str):
        places["key"] = known(STORED, key) or key
    if "/runs/{id}" in path and is_id(run):
        found = known(RUNS, run)
        if found:
            places["id"] = found[1]
            if "name" in places and is_name(name):
                places["name"] = found[0]
    elif "/v1/subscriptions/{id}" in path and is_id(run):
        places["id"] = known(SUBSCRIPTIONS, run) or run
    elif "/v1/events/{id}" in path and is_id(run):
        places["id"] = known(EVENTS, run) or run
    elif "/links/{namespace}/{id}" in path and is_id(run):
        places["id"] = known(LINKS, run) or run
    elif "/worker/sessions/{id}" in path and isinstance(run, str) and SESSION.fullmatch(run):
        places["id"] = known(SESSIONS, run) or run
    elif "/workflows/{name}" in path and is_name(name):
        places["name"] = (known(RUNS, name) or [name])[0]
    elif "/catalog/{kind}" in path and isinstance(kind, str):
        places["kind"] = known(KINDS, kind) or kind
    return path_parameters


@schemathesis.hook
def before_call(context, case, kwargs):
    # The key that asks is not revoked: all that follows would be refused.
    if case.operation.path == "/v1/keys/{id}" and (case.path_parameters or {}).get("id") == OWN:
        case.path_parameters["id"] = str(uuid.UUID(int=0))
    # Nobody waits long for a run that waits for ever.
    seconds = (case.query or {}).get("waitSeconds")
    if str(seconds).isdigit() and 1 < int(seconds) <= 30:
        case.query["waitSeconds"] = type(seconds)(1)


@schemathesis.hook
def map_body(context, body):
    """Every second definition that a schema finds right is made one that is right."""
    if isinstance(body, dict) and isinstance(body.get("session"), str):
        # Somebody who speaks for a worker that is there, and does not wait long.
        body["session"] = known(SESSIONS, body["session"]) or body["session"]
        if isinstance(body.get("waitMs", 0), int) and 0 <= body.get("waitMs", 0) <= 10_000 and "reports" not in body:
            body["waitMs"] = 20
    definition = body.get("definition", body) if isinstance(body, dict) else None
    if isinstance(definition, dict) and looks_right(definition) and len(json.dumps(body)) % 2:
        definition.update(graph({"id": "a", "type": "noop", "config": {"output": len(definition)}}))
        definition.pop("options", None)
    return body


def looks_right(definition):
    nodes, edges = definition.get("nodes"), definition.get("edges", [])
    if not isinstance(nodes, list) or not isinstance(edges, list):
        return False

    def fits(part):
        return isinstance(part, dict) and all(isinstance(part.get(name, right()), right) for name, right in FIELDS)

    return all(fits(part) for part in [*nodes, *edges]) and isinstance(definition.get("options", {}), dict)


def is_name(text):
    return isinstance(text, str) and NAME.fullmatch(text) is not None


def is_id(text):
    try:
        return isinstance(text, str) and str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False
