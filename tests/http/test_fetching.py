"""Which requests are about an answer that was asked for before, and which are not; the rest is in `test_background`."""

from __future__ import annotations

import pytest

from guardproxy.http.fetching import answer_of
from guardproxy.http.route import canonical

ABOUT = {
    "GET /v1/responses/resp_1": "resp_1",
    "GET /v1/responses/resp_1?stream=true&starting_after=7": "resp_1",
    "GET /v1/responses/Resp_1/": "resp_1",
    "GET //v1//responses/resp%5F1": "resp_1",
    "GET /openai/responses/resp_1?api-version=preview": "resp_1",
    "GET /openai/v1/responses/resp_1": "resp_1",
    "DELETE /v1/responses/resp_1": "resp_1",
    "POST /v1/responses/resp_1/cancel": "resp_1",
    "GET /v1/responses/resp_1/input_items?limit=2": "resp_1",
    "GET /v1/chat/deferred-completion/f15c-1": "f15c-1",
    "POST /v1/chat/deferred-completion/f15c-1": "",
    "DELETE /v1/chat/deferred-completion/f15c-1": "",
    "POST /v1/responses/resp_1": "",
    "POST /v1/responses": "",
    "GET /v1/responses": "",
    "POST /v1/responses/compact": "",
    "POST /v1/responses/input_tokens": "",
    "GET /v1/responses/resp_1/cancel": "",
    "POST /v1/responses/resp_1/cancel/more": "",
    "POST /v1/responses/../batches/cancel": "",
    "POST /v1/batches/b_1/cancel": "",
    "GET /v1/files/resp_1": "",
}


@pytest.mark.parametrize(("request_line", "answer"), ABOUT.items())
def test_which_answer_it_is_about(request_line: str, answer: str) -> None:
    method, _, path = request_line.partition(" ")
    assert answer_of(method, canonical(path.partition("?")[0])) == answer
