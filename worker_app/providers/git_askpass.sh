#!/bin/sh
# Answers git's two questions, who and by which password, with the two lines of a pipe that only this git inherits. A line is
# gone once it is read. git writes the host that it is about to tell into the question, so another host gets no answer.
host=$DEV_HOPS_ASKPASS_HOST
case "$1" in
    "Username for 'https://$host': ") ;;
    "Password for 'https://"*/*) exit 1 ;; # no user holds a slash: this would be a host that ends like ours
    "Password for 'https://"*"@$host': ") ;;
    *) exit 1 ;;
esac
IFS= read -r answer <"$DEV_HOPS_ASKPASS_PIPE" && printf '%s\n' "$answer"
