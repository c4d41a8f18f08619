"""Style LoRAs for shapes-xl: styles, training, measures of style."""
