#!/bin/sh
# Makes a medium from which UEFI and BIOS firmware boot, of the programs beside this file: the folder
# for it is the argument, with the file system for UEFI but for its program.
set -eu
from=$(cd "$(dirname "$0")" && pwd)
cd "$1"
cat >link <<'end'
SECTIONS { . = 0x1000; .all : { *(.first) *(.text*) *(.rodata*) *(.data*) *(.bss*) *(COMMON) } /DISCARD/ : { *(.comment) *(.note*) *(.eh_frame*) } }
end
gcc -c -Os -mabi=ms -ffreestanding -fpie -fshort-wchar -mno-red-zone -mgeneral-regs-only -fno-stack-protector -fno-asynchronous-unwind-tables -fcf-protection=none -fvisibility=hidden -Wall -Werror -o uefi.o "$from/uefi.c"
ld -T link -e start --oformat binary -o uefi.bin uefi.o
gcc -c -o bios.o "$from/bios.S"
ld -m elf_x86_64 -Ttext 0x7c00 -e start --oformat binary -o bios.img bios.o
