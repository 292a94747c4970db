"""Threads that share a client: each gets its turn."""
import threading

import gt

MOST = 20_000  # fetches of the greedy thread
FAIR = 2000  # of them, while another thread waits for its turn: some milliseconds


def test_a_thread_that_fetches_in_a_loop_leaves_room_for_others():
    x = gt.ones(4)
    gaps = []
    fetched, finished = 0, threading.Semaphore(0)

    def fetch_in_a_loop():
        nonlocal fetched
        while fetched < MOST and len(gaps) < 3 * 50:
            assert x.sum().item() == 4
            fetched += 1

    def fetch():
        for _ in range(50):
            before = fetched
            assert x.sum().item() == 4
            gaps.append(fetched - before)
        finished.release()

    greedy = threading.Thread(target=fetch_in_a_loop)
    others = [threading.Thread(target=fetch) for _ in range(3)]
    greedy.start()
    for thread in others:
        thread.start()
    for thread in [greedy, *others]:
        thread.join()
    assert all(finished.acquire(blocking=False) for _ in others)
    assert fetched < MOST and max(gaps) < FAIR


def test_a_thread_that_fetches_in_a_loop_leaves_room_to_emit():
    """A thread that never waits for a value gets the client between the waits of another, too."""
    x = gt.ones(4)
    fetched, sums = 0, []

    def fetch_in_a_loop():
        nonlocal fetched
        while fetched < MOST and not sums:
            x.sum().item()
            fetched += 1

    def emit():
        y = x
        for _ in range(300):
            y = y + 1
        sums.append(y.sum())

    threads = [threading.Thread(target=work) for work in (fetch_in_a_loop, emit)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums[0].item() == 4 * 301
    assert fetched < MOST
