"""Run something that blocks in C so that Ctrl-C still works: in a thread, while this one waits for it."""

import threading


def run_until_done(run, stop):
    """Call run() in a thread and wait; on an exception here (Ctrl-C) stop() it first. Raises what run() raised."""
    failure = []

    def body():
        try:
            run()
        except BaseException as error:  # handed to the thread that waits
            failure.append(error)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    try:
        thread.join()
    except BaseException:
        stop()
        thread.join()
        raise
    if failure:
        raise failure[0]
