"""A process that talks to a cluster may start programs by fork(): gRPC ends none of them."""

from __future__ import annotations

import subprocess
import sys

FORKS = 100
"""With gRPC's own handlers of fork() some ten of so many died by a signal."""

PROGRAM = f"""
import highwater
import asyncio, subprocess, threading
import grpc

async def main():
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{{port}}")
    codes = []

    def fork():
        for _ in range({FORKS}):
            codes.append(subprocess.run(["true"], preexec_fn=int, timeout=60).returncode)

    forking = threading.Thread(target=fork)
    forking.start()
    calls = 0
    while forking.is_alive():
        try:
            await channel.unary_unary("/nobody/answers")(b"")
        except grpc.aio.AioRpcError:
            calls += 1
    await channel.close()
    await server.stop(0)
    assert calls > 0
    print(len(codes), sorted(set(codes)))

asyncio.run(main())
"""


def test_programs_that_are_forked_beside_grpc_live() -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300, check=True
    )
    assert run.stdout == f"{FORKS} [0]\n", run.stderr
