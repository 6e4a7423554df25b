"""Idempotency-Key receipts (hosts section 10.1)."""

from __future__ import annotations

from typing import Any

from sessions_app import models
from sessions_app.services.calls import Refused, TransformCall


def find(owner: Any, key: str, digest: bytes) -> models.RequestReceipt | None:
    """The receipt of an earlier request with this key.  Raises Refused when it was another request's."""
    receipt = models.RequestReceipt.objects.filter(owner=owner, key=key).select_related("pass_record").first()
    if receipt is not None and bytes(receipt.body_digest) != digest:
        raise Refused(
            "idempotency_conflict",
            "This Idempotency-Key was used with another body or at another address. Send the request with a "
            "key of its own.",
        )
    return receipt


def write_pass(
    owner: Any,
    call: TransformCall,
    session: models.Session,
    record: models.Pass,
    view_version: int,
) -> None:
    """In the pass transaction: what a retry is answered from."""
    models.RequestReceipt.objects.create(
        owner=owner,
        key=call.idempotency_key,
        body_digest=call.body_digest,
        session=session,
        pass_record=record,
        view_version=view_version,
    )


def write_answer(owner: Any, key: str, digest: bytes, status: int, answer: Any) -> None:
    """For requests other than passes: the answer itself."""
    models.RequestReceipt.objects.create(
        owner=owner, key=key, body_digest=digest, status=status, answer=answer
    )
