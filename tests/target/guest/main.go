// guest is what the test of installations runs in a virtual machine, in the place of the agent
// in memory: it observes the machine, or answers a request to install that is on a device.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/base"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/config"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/disk"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/hardware"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/image"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/install"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/kernel"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/run"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

func main() {
	if err := do(os.Args[1:]); err != nil {
		fmt.Println("FAILS " + err.Error())
		os.Exit(1)
	}
}

func do(args []string) error {
	h := inside.Real("/", true)
	switch {
	case len(args) == 1 && args[0] == "observe":
		seen, err := disk.Observe(context.Background(), h)
		if err != nil {
			return err
		}
		return say("SEES", seen)
	case len(args) == 3 && args[0] == "install":
		return put(h, args[1], args[2])
	}
	return fmt.Errorf("guest observe | guest install REQUEST IMAGE: got %q", args)
}

func say(what string, v any) error {
	text, err := json.Marshal(v)
	fmt.Println(what + " " + string(text))
	return err
}

// put answers a request as the agent does, with an image that is on a device.
func put(h *inside.Host, request, from string) error {
	text, err := os.ReadFile(request)
	if err != nil {
		return err
	}
	var r wire.Request
	if err := json.Unmarshal(bytes.TrimRight(text, "\x00"), &r); err != nil {
		return err
	}
	i := &install.Installer{
		Machine: hardware.Machine, Source: func(wire.Image) (image.Source, error) { return device(from), nil },
		Facets: map[string]inside.Facet{"base": base.New(), "config": config.New(), "kernel": kernel.New()},
	}
	p := run.Program{Host: h, Install: i.Install}
	in, out := &bytes.Buffer{}, tells{}
	if err := wire.Write(in, r); err != nil {
		return err
	}
	return p.Answer(context.Background(), in, out)
}

// tells prints the frames of an answer, each of which is written at once.
type tells struct{}

func (tells) Write(b []byte) (int, error) {
	var f wire.Frame
	if err := wire.Read(bytes.NewReader(b), &f); err != nil {
		return 0, err
	}
	if f.Progress != nil {
		fmt.Println("TELLS " + f.Progress.Text)
	}
	if f.Result != nil {
		return len(b), say("RESULT", f.Result)
	}
	return len(b), nil
}

// device is an image on a block device.
type device string

func (d device) Open(_ context.Context, from int64) (io.ReadCloser, error) {
	f, err := os.Open(string(d))
	if err == nil {
		_, err = f.Seek(from, io.SeekStart)
	}
	return f, err
}
