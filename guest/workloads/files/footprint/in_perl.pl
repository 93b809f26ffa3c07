# SPDX-License-Identifier: GPL-2.0-or-later
# At each line that it reads: words of files, counted, sorted, formatted, packed and stored.
use strict;
use warnings;
use Data::Dumper;
use List::Util qw(sum first);
use POSIX qw(floor strftime);
use Storable qw(freeze thaw);

$| = 1;

sub work {
	my %count;
	for my $name ('/etc/passwd', '/etc/mime.types') {
		open(my $file, '<', $name) or next;
		while (<$file>) {
			$count{lc $_}++ for grep { /^[a-z]{3,}$/i } split /\W+/;
		}
		close $file;
	}
	my @sorted = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
	my $text = join ' ', map { sprintf '%-12s%4d', $_, $count{$_} } @sorted[0 .. 40];
	$text =~ s/(\w+) +(\d+)/$2 * 3 . ucfirst $1/ge;
	$text =~ tr/a-z/b-za/;
	my $copy = thaw(freeze(\%count));
	my @bytes = unpack 'C*', pack 'N*', values %$copy;
	local $Data::Dumper::Sortkeys = 1;
	my $dump = Dumper { words => [@sorted[0 .. 20]], sum => sum(@bytes), first => first { $_ > 2 } @bytes };
	return length($dump) + floor(sqrt length $text) + length strftime('%F', gmtime 0);
}

while (<STDIN>) {
	work();
	print "done\n";
}
