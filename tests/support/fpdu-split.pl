#!/usr/bin/perl
# SPDX-License-Identifier: BSD-2-Clause
#
# fpdu-split.pl PORT OUT.pcap OUT.list <LINES
#
# LINES are a capture of one TCP connection as `tshark -T fields` prints it: source port, sequence
# number, payload in hexadecimal.  Puts both directions together again and writes them as a capture
# with one MPA frame in each segment, which is the only form that every version of tshark can decode.
# The list says for each packet of that capture: number, 1 if from PORT, and where its MPA frame lies
# in OUT.pcap (offset, length).
#
# Knows of the protocol only what framing needs (RFC 5044 4 and 7.1.1): lengths, pad and CRC field.
# If it were wrong, tshark would find wrong CRCs.
use strict;
use warnings;

my ($port, $pcap_name, $list_name) = @ARGV;
my (%pieces, @order);

while (my $line = <STDIN>) {
    chomp $line;
    my ($from, $seq, $hex) = split /\t/, $line;
    next if !defined $hex || $hex eq '';
    my $side = $from == $port ? 1 : 0;
    push @{ $pieces{$side} }, [ $seq, pack 'H*', $hex ];
}

# stream SIDE: its octets in order, repeated ones once
sub stream
{
    my ($side) = @_;
    my $list = $pieces{$side} or die "no octets from side $side\n";
    my ($stream, $start) = ('', $list->[0][0]);
    for my $piece (@$list) {
        my $at = ($piece->[0] - $start) % 2**32;
        $at -= 2**32 if $at > 2**31;
        my $new = $at + length($piece->[1]) - length $stream;
        next if $new <= 0;
        $at <= length $stream or die "octets are missing in the capture\n";
        $stream .= substr $piece->[1], -$new;
    }
    return $stream;
}

# frames STREAM: its MPA frames; the first is the start-up frame
sub frames
{
    my ($stream) = @_;
    my $at = 20 + unpack 'n', substr $stream, 18, 2;
    my @frames = (substr $stream, 0, $at);
    while ($at < length $stream) {
        my $len = 2 + unpack 'n', substr $stream, $at, 2;
        $len += -$len % 4 + 4;
        $at + $len <= length $stream or die "the stream ends in an FPDU\n";
        push @frames, substr $stream, $at, $len;
        $at += $len;
    }
    return @frames;
}

open my $pcap, '>:raw', $pcap_name or die "$pcap_name: $!\n";
open my $list_file, '>', $list_name or die "$list_name: $!\n";
print $pcap pack 'LSSlLLL', 0xa1b2c3d4, 2, 4, 0, 0, 262144, 101;    # 101: IP without link header
my ($number, $offset, @seq) = (0, 24, 1, 1);

sub packet
{
    my ($side, $frame) = @_;
    my ($from, $to) = $side ? ($port, 50000) : (50000, $port);
    my $len = 40 + length $frame;
    my $ip = pack 'CCnnnCCnNN', 0x45, 0, $len, 0, 0, 64, 6, 0, 0x7f000001, 0x7f000001;
    my $tcp = pack 'nnNNCCnnn', $from, $to, $seq[$side], $seq[ 1 - $side ], 0x50, 0x18, 65535, 0, 0;
    $number++;
    print $pcap pack('LLLL', 0, $number, $len, $len), $ip, $tcp, $frame;
    printf $list_file "%d %d %d %d\n", $number, $side, $offset + 16 + 40, length $frame;
    $offset += 16 + $len;
    $seq[$side] = ($seq[$side] + length $frame) % 2**32;
}

# Start-up first, as it was; then each direction by itself.
my @client = frames(stream(0));
my @server = frames(stream(1));
packet(0, shift @client);
packet(1, shift @server);
packet(0, $_) for @client;
packet(1, $_) for @server;
