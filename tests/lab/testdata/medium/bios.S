// A boot sector for BIOS firmware. From a CD it writes itself onto the first drive and switches the
// machine off; from a drive it waits for the power button. It tells of it on the first serial port.
	.code16
	.globl start
start:	ljmp $0, $begin
begin:	mov %dx, %bx
	mov $0x602, %dx			// as ICH9 has it where SeaBIOS puts it; a button that is pressed
	mov $0x100, %ax			// before that is not seen, so nothing is told before it
	outw %ax, %dx
	mov %bx, %dx
	xor %ax, %ax
	mov %ax, %ds
	mov %ax, %es
	mov %ax, %ss
	mov $0x7c00, %sp
	mov $disk, %si
	cmp $0x80, %dl
	je 1f
	mov $medium, %si
1:	push %dx
	call say
	pop %dx
	cmp $0x80, %dl
	je button
	mov $0x80, %dl
	mov $packet, %si
	mov $0x4300, %ax		// write, by a packet
	int $0x13
	mov $failed, %si
	jc 2f
	mov $installed, %si
2:	call say
	jmp off
button:	mov $0x600, %dx
3:	inw %dx, %ax
	test $0x100, %ax
	jz 3b
	mov $pressed, %si
	call say
off:	mov $0x604, %dx
	mov $0x2000, %ax
	outw %ax, %dx
4:	hlt
	jmp 4b
say:	cli				// or the firmware's own text, which it sends by the clock, comes in between
6:	lodsb
	test %al, %al
	jz 7f
	mov %al, %ah
	mov $0x3fd, %dx
5:	inb %dx, %al
	test $0x20, %al
	jz 5b
	mov $0x3f8, %dx
	mov %ah, %al
	outb %al, %dx
	jmp 6b
7:	ret
medium:	.asciz "\nMEDIUM RUNS\n"
disk:	.asciz "\nDISK RUNS\n"
installed: .asciz "INSTALLED\n"
failed:	.asciz "NO DRIVE\n"
pressed: .asciz "BUTTON\n"
	.balign 4
packet:	.byte 16, 0, 1, 0		// one sector
	.word 0x7c00, 0
	.quad 0
	.org 510
	.word 0xaa55
