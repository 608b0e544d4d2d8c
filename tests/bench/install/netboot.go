package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/netboot"
)

// serveNetwork is the DHCP server of the daemon, with the records of the daemon.
func serveNetwork(args []string) error {
	if len(args) != 2 {
		return errors.New("a folder and the number of machines are needed")
	}
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	records, err := record.Open(ctx, filepath.Join(args[0], "records"), record.Options{})
	if err != nil {
		return err
	}
	defer records.Close()
	design, ready := designOf(count), make(chan struct{})
	close(ready)
	s := netboot.New(netboot.Config{
		Listen: []netboot.Listen{{Interface: lan, Network: "lan"}}, Design: func() (*site.Site, error) { return design, nil },
		Leases: records.Site("bench"), Ready: ready, NoConflictProbe: true, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	go func() {
		untilClosed()
		cancel()
	}()
	return s.Run(ctx)
}
