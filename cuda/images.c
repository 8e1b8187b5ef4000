/* The compiled kernels: the assembler takes the files in; IMAGES is their folder. */
#define IMAGE(name)                                                                                \
    __asm__(".section .rodata\n.balign 64\n.hidden image_" #name "\n.global image_" #name          \
            "\nimage_" #name ":\n.incbin \"" IMAGES "/" #name "_kernel.fatbin\"\n.previous\n");

IMAGE(sum)
IMAGE(convert)
IMAGE(quantise)
