# fcfs.pl: first come, first served, each job at its preferred size
use strict;
use warnings;
$| = 1;
my @queue;
while (my $line = <STDIN>) {
    if ($line =~ /^\{"type":"hello"/) { print qq({"protocol":1}\n); next }
    my ($free) = $line =~ /"free":(\d+)/;
    while ($line =~ /\{"type":"submitted","job":(\d+),.*?"preferred":(\d+)\}/g) { push @queue, [$1, $2] }
    my @starts;
    while (@queue and $queue[0][1] <= $free) {
        my ($job, $nodes) = @{shift @queue};
        $free -= $nodes;
        push @starts, qq({"type":"start","job":$job,"size":$nodes});
    }
    print '{"decisions":[' . join(',', @starts) . "]}\n";
}
