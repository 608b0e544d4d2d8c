package main

import (
	"net"
	"os"
)

// ownHost returns the name and the addresses of this host, without those of the loopback: by them the daemon
// recognizes its own node.
func ownHost() (all []string) {
	if name, err := os.Hostname(); err == nil {
		all = append(all, name)
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return all
	}
	for _, a := range addresses {
		if in, is := a.(*net.IPNet); is && !in.IP.IsLoopback() {
			all = append(all, in.IP.String())
		}
	}
	return all
}
