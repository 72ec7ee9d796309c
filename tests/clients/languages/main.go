package main

import (
	"fmt"
	"os"

	"github.com/go-stomp/stomp/v3"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func next(s *stomp.Subscription, want string) *stomp.Message {
	m := <-s.C
	check(m.Err)
	if string(m.Body) != want {
		panic(string(m.Body) + " is not " + want)
	}
	return m
}

func joined() *stomp.Conn {
	c, err := stomp.Dial("tcp", "127.0.0.1:"+os.Args[1], stomp.ConnOpt.Login("guest", "guest"), stomp.ConnOpt.Host("/"))
	check(err)
	return c
}

func main() {
	queue := os.Args[2]
	c := joined()
	s, err := c.Subscribe(queue, stomp.AckClientIndividual)
	check(err)
	for _, body := range []string{"go 1", "go 2", "go 3"} {
		check(c.Send(queue, "text/plain", []byte(body), stomp.SendOpt.Receipt, stomp.SendOpt.Header("persistent", "true")))
	}
	first := next(s, "go 1")
	next(s, "go 2")
	next(s, "go 3")
	tx := c.Begin()
	check(tx.Ack(first))
	check(tx.Send(queue, "text/plain", []byte("whole")))
	check(tx.Commit())
	check(c.Ack(next(s, "whole")))
	check(c.Disconnect())
	c = joined()
	s, err = c.Subscribe(queue, stomp.AckClientIndividual, stomp.SubscribeOpt.Header("prefetch-count", "10"))
	check(err)
	check(c.Ack(next(s, "go 2")))
	check(c.Ack(next(s, "go 3")))
	check(s.Unsubscribe())
	check(c.Disconnect())
	fmt.Println("fine")
}
