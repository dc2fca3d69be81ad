# SPDX-License-Identifier: BSD-2-Clause
#
# A boot sector.  Prints a number in hexadecimal on each line of the first serial port, one more each
# time; between two lines it looks whether 64 KiB of memory all have the number before, and writes the
# new one there.  X instead of a number: they have not.
    .code16
    .text
start:
    cli
    cld
    xorw %ax, %ax
    movw %ax, %ds
    movw %ax, %ss
    movw $0x7c00, %sp
    movw %ax, number
    movw $0x2000, %bx
    movw %bx, %es
    xorw %di, %di
    movw $0x8000, %cx
    rep stosw
next:
    movw number, %ax
    xorw %di, %di
    movw $0x8000, %cx
    repe scasw
    movb $'X', %bl
    jne wrong
    incw %ax
    movw %ax, number
    xorw %di, %di
    movw $0x8000, %cx
    rep stosw
    movw %ax, %bx
    movw $4, %cx
digit:
    rolw $4, %bx
    movb %bl, %al
    andb $15, %al
    cmpb $10, %al
    jb below
    addb $7, %al
below:
    addb $'0', %al
    call put
    loop digit
line:
    movb $10, %al
    call put
    movl $2000000, %ecx
wait:
    decl %ecx
    jnz wait
    jmp next
wrong:
    movb %bl, %al
    call put
    jmp line
put:
    movw $0x3f8, %dx
    outb %al, %dx
    ret
    .org 0x1f0
number:
    .word 0
    .org 0x1fe
    .word 0xaa55
