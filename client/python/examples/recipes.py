"""Recipes, which the pages quote and `tests/test_recipes.py` runs. `client` is what `leasehold_client.connect` returns."""

import asyncio
import signal

import leasehold_client
import leasehold_client.sync
from leasehold_client.testing import Coordinator


# recipe: lock
async def charge(client, order, save):
    async with client.lock(f"orders/{order}") as lock:  # a loss cancels the body, and raises LockLost
        await save(order, lock.token)
# end recipe


# recipe: try
async def charge_if_free(client, order, save):
    if lock := await client.lock(f"orders/{order}").try_acquire():
        async with lock:
            await save(order, lock.token)
            return True
    return False
# end recipe


# recipe: wait
async def charge_within_5_seconds(client, order, save):
    try:
        async with client.lock(f"orders/{order}", wait=5) as lock:
            await save(order, lock.token)
    except leasehold_client.TimedOut as busy:
        return f"held by {busy.holder.client_name}" if busy.holder else "busy"
# end recipe


# recipe: shared
async def read_and_write(client, read, write):
    async with client.lock("catalogue", shared=True):  # together with other readers
        await read()
    async with client.lock("catalogue") as lock:  # alone
        await write(lock.token)
# end recipe


# recipe: semaphore
async def call_api(client, call):
    async with client.semaphore("api", limit=10):  # one permit; .permits(2) asks for two
        await call()
# end recipe


# recipe: several
async def transfer(client, one, other, move):
    # All of them or none, and never a deadlock, whatever the order of the names.
    async with client.lock_all([f"accounts/{one}", f"accounts/{other}"]) as locks:
        await move(one, other, [lock.token for lock in locks])
# end recipe


# recipe: election
async def lead(client, work):
    async for term in client.election("scheduler", value="10.0.0.7:8080"):
        async with term:  # a loss ends this term alone; the loop campaigns again
            await work(term.token)
# end recipe


# recipe: once-per-period
async def remind(client, customer, send):
    lock = await client.detached_lock(f"reminded/{customer}", ttl=3600).try_acquire()
    if lock is None:
        return False  # somebody has, within the hour
    try:
        await send(customer)
    except BaseException:
        await lock.release()  # somebody else may try
        raise
    return True  # not released: it ends when the hour is over
# end recipe


# recipe: fencing
async def save(database, order, token):
    # The resource refuses a smaller token than one that it has seen: a holder that was paused comes too late.
    done = await database.execute("UPDATE orders SET token = ? WHERE id = ? AND token <= ?", (token, order, token))
    if done.rowcount == 0:
        raise RuntimeError(f"order {order} was saved under a newer token")
# end recipe


# recipe: stop
async def main(url, serve):
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with leasehold_client.connect(url, close_timeout=10) as client:
        serving = asyncio.create_task(serve(client))
        await stop.wait()
    # Work under locks was told to stop, and has ended; then they were handed on.
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
# end recipe


# recipe: unit-test
def test_work_stops_when_its_lock_is_lost():
    with Coordinator() as coordinator, leasehold_client.sync.connect(coordinator.url) as client:
        steps = []
        try:
            with client.lock("orders/42") as lock:
                for step in range(3):
                    lock.check()
                    steps.append(step)
                    coordinator.lose("orders/42")
                    lock.lost.wait(5)
        except leasehold_client.LockLost:
            pass
        assert steps == [0]
# end recipe
