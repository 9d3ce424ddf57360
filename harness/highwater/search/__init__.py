"""Simulations by the thousand: processes that search, and what the commands say of the results."""
