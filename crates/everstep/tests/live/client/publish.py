"""A program that publishes events with the official CloudEvents SDK.

The argument is {url, key, source}. It sends one event in each of the three modes of HTTP, and prints the answers line by
line: {"mode": "binary", "status": 202, "answer": ...}.
"""

import json
import sys
import urllib.request

from cloudevents.conversion import to_binary, to_json, to_structured
from cloudevents.http import CloudEvent

given = json.loads(sys.argv[1])


def make(name):
    attributes = {
        "id": name,
        "source": given["source"],
        "type": "order.paid",
        "subject": "order 17",
        "time": "2026-11-17T12:00:00+00:00",
        "datacontenttype": "application/json",
        "traceparent": "00-ab",
    }
    return CloudEvent(attributes, {"order": 17, "note": "é"})


def send(mode, path, headers, body):
    body = body if isinstance(body, bytes) else body.encode()
    headers = {**headers, "x-api-key": given["key"]}
    request = urllib.request.Request(given["url"] + path, body, headers, method="POST")
    with urllib.request.urlopen(request) as response:
        print(json.dumps({"mode": mode, "status": response.status, "answer": json.load(response)}))


send("binary", "/v1/topics/order.paid", *to_binary(make("binary")))
send("structured", "/v1/topics/order.paid", *to_structured(make("structured")))
batch = b"[" + b",".join(to_json(make(name)) for name in ["batched", "batched too"]) + b"]"
send("batched", "/v1/events", {"content-type": "application/cloudevents-batch+json"}, batch)
