package redfish

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/captures"
)

var _ driver.Inspector = (*machine)(nil)

// parts counts what an inventory lists.
type parts struct{ cpus, gpus, dimms, drives, nics, ports, supplies, devices, firmware int }

func count(inv *site.Inventory) parts {
	p := parts{len(inv.CPUs), len(inv.GPUs), len(inv.DIMMs), len(inv.Drives), len(inv.NICs), 0, len(inv.Supplies), len(inv.Devices), len(inv.Firmware)}
	for _, n := range inv.NICs {
		p.ports += len(n.Ports)
	}
	return p
}

// inspected are the captures, what the machines are made of, and how many
// requests a walk takes that reads the same resources one by one.
var inspected = []struct {
	file, system string
	parts        parts
	bmc          site.Controller
	naive        int
}{
	{"dell-r750-idrac9", "/redfish/v1/Systems/System.Embedded.1", parts{2, 1, 16, 3, 4, 6, 2, 13, 27},
		site.Controller{Model: "15G Monolithic", Version: "6.00.30.00"}, 136},
	{"hpe-dl385g10plus-ilo5", "/redfish/v1/Systems/1", parts{2, 0, 16, 18, 7, 8, 2, 6, 48},
		site.Controller{Model: "iLO 5", Version: "iLO 5 v2.72"}, 185},
	{"lenovo-sr670v2-xcc", "/redfish/v1/Systems/1", parts{2, 8, 16, 4, 2, 4, 4, 16, 41},
		site.Controller{Model: "Lenovo XClarity Controller", Version: "TGBT42S 2.83 2023-07-05"}, 163},
}

func TestInspectCaptures(t *testing.T) {
	for _, c := range inspected {
		t.Run(c.file, func(t *testing.T) {
			r := newReplay(t, captures.Read(t, c.file))
			inv := inspect(t, r, c.system)
			if got := count(inv); got != c.parts {
				t.Errorf("got %+v, want %+v", got, c.parts)
			}
			if *inv.BMC != c.bmc || len(inv.Missing) > 0 {
				t.Errorf("got BMC %+v, missing %q", *inv.BMC, inv.Missing)
			}
			memory, threads := int64(0), 0
			for _, d := range inv.DIMMs {
				memory += d.Bytes
			}
			for _, p := range inv.CPUs {
				threads += p.Threads
				if p.Architecture != "amd64" || p.Cores == 0 {
					t.Errorf("got processor %+v", p)
				}
			}
			if memory != int64(inv.MemoryGiB)<<30 || threads == 0 {
				t.Errorf("got %d bytes in modules and %g GiB in all, %d threads", memory, inv.MemoryGiB, threads)
			}
			for _, d := range inv.Drives {
				if d.Serial == "" || d.Model == "" || d.Bytes < 1e11 || d.Media != "SSD" || d.Name == "" {
					t.Errorf("got drive %+v", d)
				}
			}
			reads := r.took()
			t.Logf("%d requests", len(reads))
			if len(reads) > c.naive/3 {
				t.Errorf("got %d requests, want at most %d", len(reads), c.naive/3)
			}
			once(t, reads)
			if text, _ := json.Marshal(inv); len(text) > 32<<10 {
				t.Errorf("got %d bytes", len(text))
			}
		})
	}
}

func inspect(t *testing.T, r *replay, system string) *site.Inventory {
	t.Helper()
	m := r.machine(t, system)
	if _, err := m.Observe(t.Context(), &site.Node{}, nil); err != nil { // logs in
		t.Fatal(err)
	}
	r.took()
	inv, err := m.Inspect(t.Context(), &site.Node{})
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

// once says whether a resource was read more than once.
func once(t *testing.T, reads []string) {
	t.Helper()
	seen := map[string]bool{}
	for _, path := range reads {
		if seen[key(path)] {
			t.Errorf("read twice: %s", path)
		}
		seen[key(path)] = true
	}
}

// A BMC that says it can expand and cannot is asked for each resource; the
// inventory is the same.
func TestInspectWhereExpandFails(t *testing.T) {
	for _, c := range inspected {
		for name, status := range map[string]int{"refused": http.StatusBadRequest, "unable": http.StatusNotImplemented, "overwhelmed": http.StatusServiceUnavailable, "ignored": 0} {
			t.Run(c.file+"/"+name, func(t *testing.T) {
				r := newReplay(t, captures.Read(t, c.file))
				r.refuse = func(q *http.Request) int {
					if q.URL.RawQuery == "" {
						return 0
					}
					q.URL.RawQuery = ""
					return status
				}
				inv := inspect(t, r, c.system)
				if got := count(inv); got != c.parts {
					t.Errorf("got %+v, want %+v; missing %q", got, c.parts, inv.Missing)
				}
				if reads := r.took(); len(reads) > c.naive+10 {
					t.Errorf("got %d requests", len(reads))
				}
			})
		}
	}
}

// small is a machine with two drives, two modules and a port, by path.
func small() map[string]json.RawMessage {
	return map[string]json.RawMessage{
		"/redfish/v1":                              []byte(`{"Systems":{"@odata.id":"/redfish/v1/Systems"},"Chassis":{"@odata.id":"/redfish/v1/Chassis"},"Links":{"Sessions":{"@odata.id":"/redfish/v1/SessionService/Sessions"}}}`),
		"/redfish/v1/Systems/1":                    []byte(`{"@odata.id":"/redfish/v1/Systems/1","@odata.type":"#S","Id":"1","PowerState":"On","Memory":{"@odata.id":"/redfish/v1/Systems/1/Memory/"},"Storage":{"@odata.id":"/redfish/v1/Systems/1/Storage"},"EthernetInterfaces":{"@odata.id":"/redfish/v1/Systems/1/EthernetInterfaces"},"Links":{"Chassis":[{"@odata.id":"/redfish/v1/Chassis/1"}]}}`),
		"/redfish/v1/Systems/1/Memory":             []byte(`{"Members":[{"@odata.id":"/redfish/v1/Systems/1/Memory/A1"}],"Members@odata.nextLink":"/redfish/v1/Systems/1/Memory?$skip=1"}`),
		"/redfish/v1/Systems/1/Memory?$skip=1":     []byte(`{"Members":[{"@odata.id":"/redfish/v1/systems/1/memory/a1/"},{"@odata.id":"/redfish/v1/Systems/1/Memory/A2"},{"@odata.id":"/redfish/v1/Systems/1/Memory/A3"}]}`),
		"/redfish/v1/Systems/1/Memory/A1":          []byte(`{"Id":"A1","DeviceLocator":"DIMM A1","CapacityMiB":32768,"SerialNumber":"D1","Status":{"State":"Enabled","Health":"OK"}}`),
		"/redfish/v1/Systems/1/Memory/A2":          []byte(`{"Id":"A2","CapacityMiB":"32768","SerialNumber":"D2","Status":{"State":"Enabled","Health":"Warning"}}`),
		"/redfish/v1/Systems/1/Memory/A3":          []byte(`{"Id":"A3","CapacityMiB":0,"SerialNumber":"N/A","Status":{"State":"Absent"}}`),
		"/redfish/v1/Systems/1/Storage":            []byte(`{"Members":[{"@odata.id":"/redfish/v1/Systems/1/Storage/RAID 1"}]}`),
		"/redfish/v1/Systems/1/Storage/RAID 1":     []byte(`{"Id":"RAID 1","Drives":[{"@odata.id":"/redfish/v1/Systems/1/Storage/RAID 1/Drives/Disk 0"},"rubbish",{"@odata.id":"/redfish/v1/Systems/1/Storage/RAID 1/Drives/Disk 1"}]}`),
		drive0:                                     []byte(`{"Id":"Disk 0","Model":"X","SerialNumber":"S0","CapacityBytes":960000000000,"MediaType":"SSD"}`),
		drive1:                                     []byte(`{"Id":"Disk 1","Model":"X","SerialNumber":"S1","CapacityBytes":960000000000,"MediaType":"SSD"}`),
		"/redfish/v1/Systems/1/EthernetInterfaces": []byte(`{"Members":[{"@odata.id":"/e/1"},{"@odata.id":"/e/2"},{"@odata.id":"/e/3"}]}`),
		"/e/1":                        []byte(`{"Id":"1","MACAddress":"02-00-00-00-00-01","LinkStatus":"LinkUp","SpeedMbps":25000}`),
		"/e/2":                        []byte(`{"Id":"2","MACAddress":"","LinkStatus":"LinkDown"}`),
		"/e/3":                        []byte(`{"Id":"3","MACAddress":"02:00:00:00:00:03","Links":{"HostInterface":{"@odata.id":"/h/1"}}}`),
		"/redfish/v1/Chassis/1":       []byte(`{"Id":"1","Power":{"@odata.id":"/redfish/v1/Chassis/1/Power"}}`),
		"/redfish/v1/Chassis/1/Power": []byte(`{"PowerSupplies":[{"MemberId":"0","Name":"PSU 1","PowerCapacityWatts":800.5,"Status":{"State":"Enabled"}},{"MemberId":"1","Status":{"State":"Absent"}}]}`),
	}
}

const (
	drive0 = "/redfish/v1/Systems/1/Storage/RAID 1/Drives/Disk 0"
	drive1 = "/redfish/v1/Systems/1/Storage/RAID 1/Drives/Disk 1"
)

// Accelerators count as no sockets, and where the BMC lists none it is not known
// whether there are any; media that the BMC shows the machine by USB are no disks.
func TestInspectAcceleratorsAndVirtualMedia(t *testing.T) {
	look := func(more ...string) *site.Inventory {
		all := small()
		all["/redfish/v1/Systems/1"] = []byte(`{"@odata.id":"/redfish/v1/Systems/1","PowerState":"On","ProcessorSummary":{"Count":3},"Processors":{"@odata.id":"/p"},"Storage":{"@odata.id":"/redfish/v1/Systems/1/Storage"}}`)
		all["/p"] = []byte(`{"Members":[{"@odata.id":"/p/1"},{"@odata.id":"/p/2"}]}`)
		all["/p/1"] = []byte(`{"Id":"1","ProcessorType":"CPU","TotalCores":8,"TotalThreads":16}`)
		for i := 0; i < len(more); i += 2 {
			all[more[i]] = []byte(more[i+1])
		}
		return inspect(t, newReplay(t, all), "/redfish/v1/Systems/1")
	}
	if i := look("/p/2", `{"Id":"2","ProcessorType":"GPU","SerialNumber":"G"}`); i.Processors != 1 || len(i.CPUs) != 1 || len(i.GPUs) != 1 {
		t.Errorf("with a GPU: %d sockets, %+v, %+v", i.Processors, i.CPUs, i.GPUs)
	}
	if i := look("/p/2", `{"Id":"2","ProcessorType":"GPU","Status":{"State":"Absent"}}`); i.GPUs == nil || len(i.GPUs) != 0 {
		t.Errorf("with an empty place for a GPU: %+v", i.GPUs)
	}
	if i := look("/p/2", `{"Id":"2","ProcessorType":"CPU"}`); i.Processors != 2 || i.GPUs != nil {
		t.Errorf("without a word of GPUs: %d sockets, %+v", i.Processors, i.GPUs)
	}
	i := look("/p/2", `{}`, drive0, `{"Id":"Disk 0","Name":"Virtual HDISK0","Manufacturer":"American Megatrends Inc.","Protocol":"USB"}`, drive1, `{"Id":"Disk 1","Name":"Virtual Disk 1","SerialNumber":"S1","Protocol":"SAS"}`)
	if len(i.Drives) != 1 || i.Drives[0].Serial != "S1" {
		t.Errorf("with a virtual medium: %+v", i.Drives)
	}
}

// Paged collections, other spellings of a path, ids with spaces, empty slots,
// empty addresses, texts for numbers and interfaces to the BMC itself.
func TestInspectHabits(t *testing.T) {
	r := newReplay(t, small())
	inv := inspect(t, r, "/redfish/v1/Systems/1")
	if got, want := count(inv), (parts{dimms: 2, drives: 2, nics: 1, ports: 1, supplies: 1}); got != want {
		t.Errorf("got %+v, want %+v: %+v", got, want, inv)
	}
	if d := inv.DIMMs[1]; d.Bytes != 32<<30 || d.Health != "Warning" || d.Name != "" {
		t.Errorf("got %+v", d)
	}
	if p := inv.NICs[0].Ports[0]; !slices.Equal(p.MACs, []string{"02:00:00:00:00:01"}) || p.Link != "up" || p.Mbps != 25000 {
		t.Errorf("got %+v", p)
	}
	if inv.CPUs != nil || inv.Drives == nil || len(inv.Missing) > 0 {
		t.Errorf("got %+v", inv)
	}
	once(t, slices.DeleteFunc(r.took(), func(path string) bool { return path == "/redfish/v1/Systems/1/Memory" })) // has two pages
}

// What a BMC garbles or fails at costs that much of the inventory and no more.
func TestInspectGarbled(t *testing.T) {
	for name, c := range map[string]struct {
		path, answer string
		status       int
		want         parts
		missing      string
	}{
		"a field":         {drive0, `{"Id":7,"Model":["X"],"SerialNumber":"S0","CapacityBytes":"N/A","Status":"fine"}`, 200, parts{dimms: 2, drives: 2, nics: 1, ports: 1, supplies: 1}, ""},
		"a drive":         {drive0, `no JSON`, 200, parts{dimms: 2, drives: 1, nics: 1, ports: 1, supplies: 1}, "Disk 0"},
		"a missing drive": {drive0, ``, 404, parts{dimms: 2, drives: 1, nics: 1, ports: 1, supplies: 1}, "404"},
		"a collection":    {"/redfish/v1/Systems/1/Memory", `{"Members":"many"}`, 200, parts{drives: 2, nics: 1, ports: 1, supplies: 1}, ""},
		"no licence":      {"/redfish/v1/Systems/1/Memory", ``, 403, parts{drives: 2, nics: 1, ports: 1, supplies: 1}, "memory modules: denied"},
		"busy":            {"/redfish/v1/Systems/1/Storage", ``, 503, parts{dimms: 2, nics: 1, ports: 1, supplies: 1}, "drives: busy"},
		"a loop of pages": {"/redfish/v1/Systems/1/Memory", `{"Members":[{"@odata.id":"/redfish/v1/Systems/1/Memory/A1"}],"Members@odata.nextLink":"/redfish/v1/Systems/1/Memory"}`, 200,
			parts{dimms: 1, drives: 2, nics: 1, ports: 1, supplies: 1}, ""},
		"the root": {"/redfish/v1", ``, 500, parts{dimms: 2, drives: 2, nics: 1, ports: 1, supplies: 1}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReplay(t, small())
			m := r.machine(t, "/redfish/v1/Systems/1")
			if _, err := m.Observe(t.Context(), &site.Node{}, nil); err != nil {
				t.Fatal(err)
			}
			r.spoil = func(path string, body []byte) (int, []byte) {
				if path == c.path {
					return c.status, []byte(c.answer)
				}
				return 200, body
			}
			inv, err := m.Inspect(t.Context(), &site.Node{})
			if err != nil {
				t.Fatal(err)
			}
			if got := count(inv); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if got := strings.Join(inv.Missing, "; "); !strings.Contains(got, c.missing) || c.missing != "" && got == "" {
				t.Errorf("got missing %q, want %q", got, c.missing)
			}
		})
	}
}

// A machine that is off and lists nothing has not lost its memory.
func TestInspectOff(t *testing.T) {
	all := small()
	all["/redfish/v1/Systems/1"] = bytes.Replace(all["/redfish/v1/Systems/1"], []byte(`"On"`), []byte(`"Off"`), 1)
	all["/redfish/v1/Systems/1/Memory"] = []byte(`{"Members":[]}`)
	inv := inspect(t, newReplay(t, all), "/redfish/v1/Systems/1")
	if inv.DIMMs != nil || len(inv.Drives) != 2 || len(inv.Missing) != 1 || !strings.Contains(inv.Missing[0], "memory modules") {
		t.Errorf("got %+v", inv)
	}
}

// A BMC of which every answer leads to more is left after a bounded number of
// requests, with what there is until then.
func TestInspectWithoutEnd(t *testing.T) {
	all := small()
	var members []string
	for n := range 600 {
		path := fmt.Sprintf("/m/%d", n)
		all[path] = []byte(fmt.Sprintf(`{"Id":"%d","CapacityMiB":1024,"SerialNumber":"%d"}`, n, n))
		members = append(members, fmt.Sprintf(`{"@odata.id":%q}`, path))
	}
	all["/redfish/v1/Systems/1/Memory"] = []byte(`{"Members":[` + strings.Join(members, ",") + `]}`)
	r := newReplay(t, all)
	inv := inspect(t, r, "/redfish/v1/Systems/1")
	if got := len(r.took()); got > maxRequests+1 {
		t.Errorf("got %d requests", got)
	}
	if len(inv.Drives) != 2 || len(inv.DIMMs) < 400 || !strings.Contains(strings.Join(inv.Missing, ";"), "lists more than Slipway reads") {
		t.Errorf("got %d drives, %d modules, missing %q", len(inv.Drives), len(inv.DIMMs), inv.Missing)
	}
}

// A BMC that refuses all is not asked again and again.
func TestInspectForbidden(t *testing.T) {
	r := newReplay(t, captures.Read(t, "forbidden"))
	m := r.machine(t, "/redfish/v1/Systems/1")
	if inv, err := m.Inspect(t.Context(), &site.Node{}); err == nil {
		t.Errorf("got %+v", inv)
	}
	if reads := r.took(); len(reads) > 3 {
		t.Errorf("got %d requests: %q", len(reads), reads)
	}
}

// A session that ends and cannot be opened again ends the walk.
func TestInspectDenied(t *testing.T) {
	b := newBMC(t)
	m := open(t, b.endpoint())
	if _, err := look(m, nil); err != nil {
		t.Fatal(err)
	}
	b.answer("GET /redfish/v1/", status(http.StatusUnauthorized, ""))
	b.answer("POST /redfish/v1/SessionService/Sessions", status(http.StatusUnauthorized, ""))
	if _, err := m.Inspect(t.Context(), &site.Node{}); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("got %v", err)
	}
}

func TestMAC(t *testing.T) {
	for text, want := range map[string]string{
		"02:C8:EA:D7:AD:E9": "02:c8:ea:d7:ad:e9", "02C8EAD7ADE9": "02:c8:ea:d7:ad:e9", "02-c8-ea-d7-ad-e9": "02:c8:ea:d7:ad:e9",
		"": "", "N/A": "", "00:00:00:00:00:00": "", "FF:FF:FF:FF:FF:FF": "", "88e9:a4ff:ff87:42c8": "", "02:c8:ea:d7:ad:zz": "", "é2c8ead7ade": "",
	} {
		if got := mac(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// FuzzInspect changes one answer of a machine at will. Nothing of it may stop
// the daemon, or take without end.
func FuzzInspect(f *testing.F) {
	all := small()
	paths := slices.Sorted(maps.Keys(all))
	for n, path := range paths {
		f.Add(n, []byte(all[path]))
	}
	f.Add(3, []byte(`{"Members":[{"@odata.id":"/redfish/v1/Systems/1"},{"@odata.id":"x","@odata.type":1,"Id":{}},[[[]]],null]}`))
	f.Add(0, []byte(`{"ProtocolFeaturesSupported":{"ExpandQuery":{"NoLinks":true,"ExpandAll":true,"Levels":true,"MaxLevels":1e99}}}`))
	f.Fuzz(func(t *testing.T, n int, answer []byte) {
		spoilt := paths[uint(n)%uint(len(paths))]
		requests := 0
		w := newWalk(func(_ context.Context, path string) (object, error) {
			requests++
			body := []byte(all[strings.TrimRight(path, "/")])
			if strings.TrimRight(path, "/") == spoilt {
				body = answer
			}
			var o object
			if err := json.Unmarshal(body, &o); err != nil {
				return nil, refused("the answer is not JSON: %w", err)
			}
			return o, nil
		})
		var s object
		json.Unmarshal(all["/redfish/v1/Systems/1"], &s)
		i := &inspection{walk: w, system: system{s}, inv: &site.Inventory{}}
		if err := i.all(t.Context()); err != nil && !errors.Is(err, errEnough) {
			t.Errorf("got %v", err)
		}
		if requests > maxRequests {
			t.Errorf("got %d requests", requests)
		}
		if _, err := json.Marshal(i.inv); err != nil {
			t.Error(err)
		}
	})
}
