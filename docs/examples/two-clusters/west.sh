#!/bin/sh
# The cluster in the west, as east.sh beside this is for the east.
set -eu

stampede cluster users set bridge --group bridges --passcode-stdin < /etc/stampede/bridge.passcode
stampede cluster users set from-east --group places --passcode-stdin < /etc/stampede/from-east.passcode

stampede cluster permissions set '#' send=staff consume=staff browse=staff create_address=staff \
        create_durable_queue=staff create_non_durable_queue=staff delete_durable_queue=staff
stampede cluster permissions set orders send=places create_address=staff,places create_durable_queue=staff,places consume=staff
stampede cluster permissions set 'news.#' send=staff,places create_address=staff,places,bridges consume=staff,bridges \
        create_durable_queue=bridges delete_durable_queue=bridges create_non_durable_queue=staff

stampede cluster bridges set news-east url=stomp+ssl://east.example.com:61612 source='/topic/news.#' target=/topic/news.all \
        user=bridge login=from-west passcode_file=/etc/stampede/from-west.passcode ca_file=/etc/stampede/ca.pem
