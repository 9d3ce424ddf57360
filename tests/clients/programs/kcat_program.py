"""kcat, the program: its output is told on."""

from __future__ import annotations

import subprocess
import threading
import time

from lines import (
    ACKS,
    CODECS,
    PACE_S,
    PADDING,
    RECORDS,
    At,
    asked_again,
    half,
    is_stopped,
    run,
    tell,
)


def writer(at: At) -> list[str]:
    return ["kcat", "-b", at.bootstrap, "-P", "-t", at.topic, "-p", "0"]


def produce(at: At) -> None:
    for turn in range(2):
        for acks in ACKS:
            for codec in CODECS:
                value = f"{acks} {codec} {turn}{PADDING}"
                subprocess.run(
                    [
                        *writer(at),
                        "-X",
                        f"acks={acks}",
                        "-z",
                        codec,
                    ],
                    input=f"{value}\n",
                    text=True,
                    check=True,
                )
                tell(acks=acks, codec=codec, value=value)
        if turn == 0:
            half()


def idempotent(at: At) -> None:
    with subprocess.Popen(
        [
            *writer(at),
            "-X",
            "enable.idempotence=true",
        ],
        stdin=subprocess.PIPE,
        text=True,
    ) as kcat:
        assert kcat.stdin is not None
        for number in range(2 * RECORDS):
            kcat.stdin.write(f"{number}\n")
            kcat.stdin.flush()
            if number == RECORDS - 1:
                half()
            elif number >= RECORDS:
                time.sleep(PACE_S)
        kcat.stdin.close()
    assert kcat.returncode == 0
    for number in range(2 * RECORDS):
        tell(sent=str(number))


def read(arguments: list[str]) -> None:
    with subprocess.Popen(
        ["kcat", "-u", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as kcat:

        def tell_values() -> None:
            for line in kcat.stdout or ():
                tell(read=line.rstrip("\n"))

        def tell_shares() -> None:
            for line in kcat.stderr or ():
                words = line.partition("rebalanced (")[2].partition(": ")[2]
                if words.startswith(("assigned", "revoked")):
                    tell(holds=line.count(" [") if words.startswith("assigned") else 0)

        threads = [threading.Thread(target=each) for each in (tell_values, tell_shares)]
        for thread in threads:
            thread.start()
        while not is_stopped():
            time.sleep(PACE_S)
        kcat.terminate()
        for thread in threads:
            thread.join()


def assign(at: At) -> None:
    read(["-b", at.bootstrap, "-C", "-t", at.topic, "-p", "0", "-o", "beginning"])


def group(at: At) -> None:
    read(["-b", at.bootstrap, "-X", "auto.offset.reset=earliest", "-G", at.group, at.topic])


def seek(at: At) -> None:
    reader = ["kcat", "-b", at.bootstrap, "-C", "-t", at.topic, "-p", "0", "-q"]
    for second in (10, 15):
        since = f"s@{at.since_ms + second * 1_000}"
        command = [*reader, "-o", since, "-c", "1", "-f", "%o %s\n"]

        def asked(command: list[str] = command) -> str:
            return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout

        # kcat ends where the leader is dead that it asks for the offset.
        offset, value = asked_again(asked, subprocess.CalledProcessError).split()
        tell(asked=second, offset=int(offset), value=value)
        if second == 10:
            half()


if __name__ == "__main__":
    run(
        {
            "produce": produce,
            "idempotent": idempotent,
            "assign": assign,
            "group": group,
            "seek": seek,
        }
    )
