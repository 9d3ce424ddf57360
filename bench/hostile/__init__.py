"""Clients that harm, on purpose or by leaving at the wrong moment, beside clients that do not.

Each deed alone shows how long others wait for it; an hour of all of them, with faults, shows
whether every node lives, memory stays, and nothing that was acknowledged is lost. The container
suite does the same deeds for seconds.
"""
