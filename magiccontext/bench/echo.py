"""The echo view: the least that any full-array answer costs here.  Only served while a bench runs."""

from __future__ import annotations

import hashlib

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from magiccontext.engine.wire.spans import read_array, split_body


@csrf_exempt
@login_not_required
def echo(request: HttpRequest) -> HttpResponse:
    """Split the body, hash every message, give the same messages back."""
    members = split_body(request.read())
    slices = read_array(members["messages"], 1)
    digests = [hashlib.sha256(raw).digest() for raw in slices]
    body = b'{"messages":[' + b",".join(slices) + b'],"count":' + str(len(digests)).encode() + b"}"
    return HttpResponse(body, content_type="application/json")
