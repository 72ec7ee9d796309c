require 'stomp'
port, queue = ARGV
def joined(port)
  Stomp::Connection.new(hosts: [{login: 'guest', passcode: 'guest', host: '127.0.0.1', port: port.to_i}], reliable: false,
    connect_headers: {'accept-version' => '1.2', 'host' => '/', 'heart-beat' => '0,0'})
end
c = joined(port)
c.subscribe(queue, {'id' => 's', 'ack' => 'client-individual'})
(1..3).each { |n| c.publish(queue, "ruby #{n}", {'persistent' => 'true'}) }
got = (1..3).map { c.receive }
raise got.map(&:body).inspect unless got.map(&:body) == ['ruby 1', 'ruby 2', 'ruby 3']
c.begin('t'); c.ack(got[0].headers['ack'], {'transaction' => 't'}); c.publish(queue, 'whole', {'transaction' => 't'}); c.commit('t')
m = c.receive
raise m.body unless m.body == 'whole'
c.ack(m.headers['ack']); c.disconnect({'receipt' => 'bye'})
c = joined(port)
c.subscribe(queue, {'id' => 's', 'ack' => 'client-individual'})
again = (1..2).map { c.receive }
raise again.map(&:body).inspect unless again.map(&:body) == ['ruby 2', 'ruby 3'] and again.all? { |x| x.headers['redelivered'] == 'true' }
again.each { |x| c.ack(x.headers['ack']) }
c.disconnect({'receipt' => 'bye'}); puts 'fine'
