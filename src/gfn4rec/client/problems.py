"""Errors of the client: one clear sentence, that of the service where it sent one."""

from gfn4rec.errors import UserError


class ClientError(UserError):
    """A call that has failed for good. `status` is that of the answer, or None if there was none.

    >>> raise ClientError("request_id r1: was used before with another body; choose a new one", 409)
    Traceback (most recent call last):
    gfn4rec.client.problems.ClientError: request_id r1: was used before with another body; choose a new one
    """

    def __init__(self, detail: str, status: int | None = None) -> None:
        super().__init__(detail)
        self.detail, self.status = detail, status
