from pliant.apgas import async_at, finish, places, run


def main():  # at place 0; the others execute tasks
    with finish():
        for place in places():
            async_at(place, print, "here I am")


run(main)
