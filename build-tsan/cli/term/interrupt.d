build-tsan/cli/term/interrupt.o: cli/term/interrupt.c \
 cli/term/interrupt.h
cli/term/interrupt.h:
