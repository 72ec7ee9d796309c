use strict; use Net::Stomp;
my ($port, $queue) = @ARGV;
sub joined { my $s = Net::Stomp->new({hostname => '127.0.0.1', port => $port});
  my $c = $s->connect({login => 'guest', passcode => 'guest'}); $c->command eq 'CONNECTED' or die $c->as_string; $s }
my $s = joined();
# Its send_with_receipt takes the next frame for the RECEIPT: not on a connection that is subscribed.
for my $n (1..3) { $s->send_with_receipt({destination => $queue, body => "perl $n", persistent => 'true'}) or die 'no receipt' }
$s->subscribe({destination => $queue, id => 's', ack => 'client'});
my $f = $s->receive_frame; $f->body eq 'perl 1' or die $f->body; $s->ack({frame => $f});
$f = $s->receive_frame; $f->body eq 'perl 2' or die $f->body;
$s->disconnect;
$s = joined();
$s->subscribe({destination => $queue, id => 's', ack => 'client'});
for my $n (2..3) { $f = $s->receive_frame; $f->body eq "perl $n" or die $f->body; $s->ack({frame => $f}) }
my $other = joined();
$other->send_transactional({destination => $queue, body => 'whole'}) or die 'not sent';
$other->disconnect;
$f = $s->receive_frame; $f->body eq 'whole' or die $f->body; $s->ack({frame => $f});
$s->disconnect; print "fine\n";
