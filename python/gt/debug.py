"""Looking inside: statistics of the dispatcher and its workers."""

import json

from gt import _gt


def dispatcher_stats():
    """The dispatcher's statistics, as a dictionary; waits for them."""
    return json.loads(_gt.stats())


def get_worker_stats():
    """The statistics of each worker, by its name; waits for them."""
    return {worker['name']: worker for worker in dispatcher_stats()['workers']}


def print_worker_stats():
    """Print get_worker_stats(), a worker to a paragraph."""
    for name, stats in get_worker_stats().items():
        print(f'{name}:')
        for key, value in stats.items():
            if key != 'name':
                print(f'  {key}: {value}')
