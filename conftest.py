"""A test session compiles thousands of programs, more than a process has memory maps for."""


def pytest_runtest_teardown(item, nextitem):
    from tokenfield._memory import make_room

    make_room()
