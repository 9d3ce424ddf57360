"""Both worlds for one test body: the simulator's kernel and asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

import pytest

from highwater_adapters.asyncio_runtime import AsyncioRuntime
from highwater_core.runtime import Runtime
from highwater_simulator.kernel import Kernel, SimulationFailed

LIMIT_MS = 20_000

Body = Callable[[Runtime], Coroutine[Any, Any, None]]


class World(Protocol):
    """Runs a test body to its end; `failures` are the bugs that tasks reported, by task."""

    name: str
    failures: list[tuple[str, BaseException]]

    def run(self, body: Body) -> None: ...


class VirtualWorld:
    """Virtual time: a run is over at once, however long it sleeps."""

    name = "kernel"

    def __init__(self) -> None:
        self.kernel = Kernel()
        self.failures: list[tuple[str, BaseException]] = []

    def run(self, body: Body) -> None:
        runtime = self.kernel.runtime("node")
        task = runtime.scope("test").spawn("body", body(runtime))
        try:
            self.kernel.run_until(task.is_done, LIMIT_MS, "the test's end")
        except SimulationFailed as failure:
            cause = failure.__cause__
            assert cause is not None
            if isinstance(cause, AssertionError):
                raise cause from None
            self.failures.append((str(failure), cause))
        finally:
            self.kernel.close()


class AsyncioWorld:
    """Real time and real threads."""

    name = "asyncio"

    def __init__(self) -> None:
        self.failures: list[tuple[str, BaseException]] = []

    def run(self, body: Body) -> None:
        async def main() -> None:
            failed = asyncio.Event()

            def report(task_name: str, error: BaseException) -> None:
                self.failures.append((task_name, error))
                failed.set()

            runtime = AsyncioRuntime(report)
            waits: list[Awaitable[Any]] = [body(runtime), failed.wait()]
            tasks = [asyncio.ensure_future(wait) for wait in waits]
            done, pending = await asyncio.wait(
                tasks, timeout=LIMIT_MS / 1000, return_when=asyncio.FIRST_COMPLETED
            )
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
            assert done, "the test did not end"
            for task in done:
                task.result()

        asyncio.run(main())


@pytest.fixture
def kernel_world() -> VirtualWorld:
    return VirtualWorld()


@pytest.fixture
def asyncio_world() -> AsyncioWorld:
    return AsyncioWorld()


@pytest.fixture(params=["kernel", "asyncio"])
def world(request: pytest.FixtureRequest) -> World:
    made: World = request.getfixturevalue(f"{request.param}_world")
    return made
