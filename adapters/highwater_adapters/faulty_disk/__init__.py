"""A broker's disk that loses what was not synced, refuses operations or syncs slowly: by FUSE.

The broker's data folder is mounted over by a file system of this package, which runs in the
broker's own container, in a process beside it:

    python -m highwater_adapters.faulty_disk /var/lib/highwater/data -- python -m highwater_broker

The mount lives in the container's mount namespace, so nothing of it outlives the container. The
files themselves stay on the node's volume, where helpers and collectors read them as ever.

kernel.py     the kernel's FUSE protocol: requests and replies as bytes
served.py     the folder's files, as the kernel asks for them
tree.py       which names and contents of the folder are on the disk; pure
durable.py    the same on the volume: synced copies of the files, and a journal of the names
ailing.py     which operations are refused or delayed: read from a file of orders
loss.py       what a power loss leaves, and the folder made so
__main__.py   mounts, and becomes the broker

Sources: the Linux kernel's include/uapi/linux/fuse.h, of protocol 7.31.
"""
