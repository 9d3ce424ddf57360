"""Clients that harm, on purpose or by leaving at the wrong moment, beside clients that do not.

A *deed* is one kind of hostile behaviour. Each deed alone shows how long other clients wait
meanwhile. An hour of all deeds, with faults, shows whether every node lives, memory does not grow,
and no acknowledged record is lost. The container suite does the same deeds for seconds.
"""
