"""Run a blocking C function in another thread while this one waits, so that Ctrl-C still works."""

import threading


def run_until_done(run, stop):
    """Call run() in a thread and wait. On an exception here (Ctrl-C) call stop() first. Re-raises run()'s exception."""
    failure = []

    def body():
        try:
            run()
        except BaseException as error:  # re-raised by the waiting thread
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
