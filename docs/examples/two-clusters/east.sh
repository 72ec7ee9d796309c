#!/bin/sh
# The cluster in the east: who may do what, and its bridges. Run it where `stampede cluster` reaches the east's etcd
# (STAMPEDE_ETCD__ENDPOINTS). The two passcodes between the places lie on both sides, in /etc/stampede.
set -eu

stampede cluster users set bridge --group bridges --passcode-stdin < /etc/stampede/bridge.passcode
stampede cluster users set from-west --group places --passcode-stdin < /etc/stampede/from-west.passcode

stampede cluster permissions set '#' send=staff consume=staff browse=staff create_address=staff \
        create_durable_queue=staff create_non_durable_queue=staff delete_durable_queue=staff
stampede cluster permissions set orders send=staff create_address=staff,bridges create_durable_queue=staff,bridges consume=bridges
stampede cluster permissions set 'news.#' send=staff,places create_address=staff,places,bridges consume=staff,bridges \
        create_durable_queue=bridges delete_durable_queue=bridges create_non_durable_queue=staff

# Orders that are taken here are worked on in the west. They wait here while the west cannot be reached.
stampede cluster bridges set orders-west url=stomp+ssl://west.example.com:61612 source=/queue/orders \
        user=bridge login=from-east passcode_file=/etc/stampede/from-east.passcode ca_file=/etc/stampede/ca.pem
# News of either place are heard in both: the west has the same bridge the other way (max_hops = 1 stops the circle).
stampede cluster bridges set news-west url=stomp+ssl://west.example.com:61612 source='/topic/news.#' target=/topic/news.all \
        user=bridge login=from-east passcode_file=/etc/stampede/from-east.passcode ca_file=/etc/stampede/ca.pem
