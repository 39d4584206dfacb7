"""`python -m minisgl`: serve a model."""

if __name__ == "__main__":
    from minisgl.server import launch_server

    launch_server()
