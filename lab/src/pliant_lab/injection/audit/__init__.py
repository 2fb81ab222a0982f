"""What must hold in a world, looked at by eyes of their own."""
