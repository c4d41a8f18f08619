"""Which level keeps the quality of which prompt? Learned and told without torch."""
