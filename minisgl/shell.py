"""`python -m minisgl.shell`: chat with a model in this terminal."""

if __name__ == "__main__":
    from minisgl.server import launch_server

    launch_server(run_shell=True)
