"""The commands: a module each, with register(app: typer.Typer) that adds what it has.

A new module is found by itself.
"""
