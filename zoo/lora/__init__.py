"""Style LoRAs for shapes-xl: what each style is, how it is learnt, how much of it a picture has."""
