"""Takes and releases a lock with redis-py's own `Lock`, as it is told on standard input.

    python redis_py_lock.py REDIS_URL KEY

Orders: `try` (do not wait), `wait` (wait for ten seconds), `release`.
"""

import sys

import redis
from redis.exceptions import LockError


def main() -> None:
    url, key = sys.argv[1:]
    client = redis.Redis.from_url(url)
    lock = client.lock(key, timeout=60, sleep=0.02)
    for order in map(str.strip, sys.stdin):
        if order == "try":
            print("acquired", lock.acquire(blocking=False), flush=True)
        elif order == "wait":
            print("waiting", flush=True)
            print("acquired", lock.acquire(blocking_timeout=10), flush=True)
        elif order == "release":
            try:
                lock.release()
                print("released True", flush=True)
            except LockError:
                print("released False", flush=True)
        else:
            sys.exit(f"there is no order {order!r}")


if __name__ == "__main__":
    main()
