"""Server processes over one store: killed at random points, and two at a time with a client that hops between them."""

import asyncio
import os
import random
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from app.store.database import Database
from app.store.doctor import examine
from app.store.tables import responses, turns
from tests.engines.fake_worker import FakeWorker, in_a_thread
from tests.models import BUILT

from .replicas import Replica, Words, replica
from .served import END, THOUGHT, until

pytestmark = pytest.mark.skipif(not BUILT, reason="no tokenizer data packages (make test installs them)")
TURNS = 200
KILLS = 3


def talk_until_killed(server: Replica, told: list[dict[str, Any]], after_s: float | None) -> None:
    """Go on with the conversation turn by turn, streamed; every response whose end was seen is noted."""
    pid = os.getpgid(server.server.process.pid)
    killer = None if after_s is None else threading.Timer(after_s, os.killpg, (pid, signal.SIGKILL))
    if killer is not None:
        killer.start()
    try:
        while killer is not None or len(told) < TURNS:
            body = {
                "model": "m",
                "input": f"question {len(told)}.",
                "stream": True,
                "previous_response_id": told[-1]["id"] if told else None,
            }
            with server.http.stream("POST", "/responses", json=body) as reply:
                for line in reply.iter_lines():
                    if line.startswith("data: {"):
                        event = msgspec.json.decode(line.removeprefix("data: "))
                        if event["type"] == "response.completed":
                            told.append(event["response"])
    except httpx.HTTPError:
        assert killer is not None
    finally:
        if killer is not None:
            killer.cancel()


def test_killed_servers_have_what_they_told(store_url: str, tmp_path: Path) -> None:
    chance = random.Random(7)
    words = Words()
    told: list[dict[str, Any]] = []
    with in_a_thread(FakeWorker(answer=lambda request: words.ids(f"{THOUGHT}answer {len(told)}.{END}"))) as fake:
        for _ in range(KILLS):
            with replica(store_url, fake, tmp_path) as server:
                talk_until_killed(server, told, chance.uniform(0.3, 3))
        with replica(store_url, fake, tmp_path) as server:
            talk_until_killed(server, told, None)
            for response in told:
                assert server.get(response["id"]) == response
            names: list[str] = []
            after = ""
            while True:
                path = f"/responses/{told[-1]['id']}/input_items?order=asc&limit=100{after}"
                page = server.call("GET", path).json()
                names += [
                    item["content"][0]["text"]
                    for item in page["data"]
                    if item["type"] == "message" and item["role"] == "user"
                ]
                if not page["has_more"]:
                    break
                after = f"&after={page['last_id']}"
            assert len(told) >= TURNS  # a quick machine has more of them before the last kill
            assert names == [f"question {number}." for number in range(len(told))]
            unfinished = asyncio.run(check_store(store_url, {response["id"] for response in told}))
            for name in unfinished:
                body = {"model": "m", "input": "x", "previous_response_id": name}
                assert server.call("POST", "/responses", json=body).status_code == 400
                assert server.get(name)["output"] == []


async def check_store(url: str, told: set[str]) -> list[str]:
    """Every row is whole: ended ones have all, others nothing; the others' ids."""
    database = Database(url, pool_size=1)
    try:
        query = responses.select().add_columns(turns.c.output).where(turns.c.response_id == responses.c.id)
        rows = await database.read(lambda connection: connection.execute(query).all())
        assert told <= {row.id for row in rows if row.status == "completed"}
        for row in rows:
            items = msgspec.json.decode(bytes(row.output))
            assert [item["type"] for item in items] == (["reasoning", "message"] if row.status == "completed" else [])
        assert {finding.kind async for finding in examine(database, deep=True)} <= {"stuck"}
        return [row.id for row in rows if row.status != "completed"]
    finally:
        await database.close()


def test_a_client_that_hops_between_replicas(store_url: str, tmp_path: Path) -> None:
    words = Words()
    answers: list[str] = []
    with (
        in_a_thread(FakeWorker(answer=lambda request: words.ids(f"{THOUGHT}{answers[-1]}{END}"))) as fake,
        replica(store_url, fake, tmp_path) as one,
        replica(store_url, fake, tmp_path) as two,
    ):
        said: list[str] = []
        previous = None
        for number in range(10):
            answers.append(f"answer-{number}.")
            body = {"input": f"question-{number}.", "previous_response_id": previous}
            server, other = (one, two) if number % 2 else (two, one)
            made = server.post(**body) if number % 3 else server.stream(**body)[-1]["response"]
            assert other.get(made["id"]) == made
            prompt = words.text(fake.requests[-1]["token_ids"])
            said.append(f"question-{number}.")
            assert [prompt.count(word) for word in said] == [1] * len(said)
            assert sorted(said, key=prompt.index) == said
            said.append(f"answer-{number}.")
            previous = made["id"]
        two_branches(one, two, previous or "", fake, words)
        in_the_background(one, two, fake, answers)


def two_branches(one: Replica, two: Replica, head: str, fake: Any, words: Words) -> None:
    """Eight continuations of one head at once: eight branches, each of which knows nothing of the others."""
    start = len(fake.requests)

    def go_on(number: int) -> dict[str, Any]:
        return (one, two)[number % 2].post(input=f"branch-{number}.", previous_response_id=head)

    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(go_on, range(8)))
    prompts = [words.text(request["token_ids"]) for request in fake.requests[start:]]
    for number, response in enumerate(made):
        (prompt,) = [prompt for prompt in prompts if f"branch-{number}." in prompt]
        assert prompt.count("branch-") == 1
        assert prompt.count("question-") == 10
        listed = two.call("GET", f"/responses/{response['id']}/input_items?limit=1").json()
        assert listed["data"][0]["content"][0]["text"] == f"branch-{number}."
        assert one.get(response["id"]) == response


def in_the_background(one: Replica, two: Replica, fake: Any, answers: list[str]) -> None:
    """Begun on one replica; followed, replayed and cancelled on the other."""
    answers.append("slow " * 20)
    fake.delay_s = 0.05
    queued = one.post(input="q", background=True)
    followed = two.call("GET", f"/responses/{queued['id']}?stream=true")
    assert followed.status_code == 200
    events = [msgspec.json.decode(line[6:]) for line in followed.text.splitlines() if line.startswith("data: {")]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["type"] == "response.completed"
    assert events[-1]["response"] == one.get(queued["id"])
    rest = one.call("GET", f"/responses/{queued['id']}?stream=true&starting_after=5").text
    numbers = [msgspec.json.decode(line[6:])["sequence_number"] for line in rest.splitlines() if line[:7] == "data: {"]
    assert numbers == list(range(6, len(events)))
    answers.append("slow " * 2000)
    running = one.post(input="q", background=True)["id"]
    until(lambda: fake.running)
    assert two.call("POST", f"/responses/{running}/cancel").json()["status"] == "cancelled"
    until(lambda: not fake.running)
    assert one.get(running)["status"] == "cancelled"
    assert one.call("POST", f"/responses/{running}/cancel").json() == two.get(running)
