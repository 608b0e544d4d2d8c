package lab

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

const root = "/redfish/v1"

// body is a resource as JSON has it.
type body = map[string]any

// tree is the resources of a BMC whose machine was just built: what then
// happens to the machine is laid over them. A body that is given away is the
// receiver's to change.
type tree interface {
	// at is the resource at a path that has no slash at its end, nil when
	// there is none.
	at(m *Machine, path string) body
}

// layout is a tree that is made as it is asked for, from the machine's
// configuration.
type layout struct {
	singles map[string]func(m *Machine) body
	lists   map[string]list
}

// list is a collection and its members.
type list struct {
	kind   string
	ids    func(m *Machine) []string
	member func(m *Machine, id, path string) body
}

func (l layout) at(m *Machine, p string) body {
	if f := l.singles[p]; f != nil {
		return f(m)
	}
	if c, ok := l.lists[p]; ok {
		return m.kind.collection(c.kind, p, c.ids(m)...)
	}
	dir, id := path.Split(p)
	c, ok := l.lists[strings.TrimSuffix(dir, "/")]
	if !ok || !slices.Contains(c.ids(m), id) {
		return nil
	}
	return c.member(m, id, p)
}

// canonical is a path in the case in which the tree has it, where the BMC does
// not mind the case.
func (p *personality) canonical(at string) string {
	if !p.foldCase || p.cased[strings.ToLower(at)] == at {
		return at
	}
	if known := p.cased[strings.ToLower(at)]; known != "" {
		return known
	}
	if dir, id := path.Split(at); len(dir) > len(root) {
		return p.canonical(strings.TrimSuffix(dir, "/")) + "/" + id
	}
	return at
}

// fixed are the ids of a collection that is the same for all machines.
func fixed(ids ...string) func(*Machine) []string { return func(*Machine) []string { return ids } }

// thing is a resource of a kind.
func (p *personality) thing(kind, path, name string, more body) body {
	b := body{"@odata.id": path, "@odata.type": p.typeOf(kind), "Id": path[strings.LastIndexByte(path, '/')+1:], "Name": name}
	for k, v := range more {
		b[k] = v
	}
	return b
}

// typeOf is the @odata.type of a kind of resource.
func (p *personality) typeOf(kind string) string {
	v := p.versions[kind]
	if v == "" {
		v = schemas[kind]
	}
	if v == "" {
		return fmt.Sprintf("#%s.%[1]s", kind)
	}
	return fmt.Sprintf("#%s.%s.%[1]s", kind, v)
}

// kindOf is what a resource calls itself, without the version.
func kindOf(b body) string {
	t, _ := b["@odata.type"].(string)
	k, _, _ := strings.Cut(strings.TrimPrefix(t, "#"), ".")
	return k
}

func (p *personality) collection(kind, path string, ids ...string) body {
	members := make([]any, 0, len(ids))
	for _, id := range ids {
		members = append(members, ref(path+"/"+id))
	}
	return body{
		"@odata.id": path, "@odata.type": fmt.Sprintf("#%sCollection.%[1]sCollection", kind), "Name": kind + " Collection",
		"Members@odata.count": len(members), "Members": members,
	}
}

func ref(path string) body { return body{"@odata.id": path} }

// refs are references to the members of a collection.
func refs(path string, ids ...string) []any {
	all := make([]any, len(ids))
	for i, id := range ids {
		all[i] = ref(path + "/" + id)
	}
	return all
}

// healthy is the Status of what works.
func healthy() body { return body{"State": "Enabled", "Health": "OK"} }

// schemas are the versions of the schemas that the lab's resources follow.
var schemas = map[string]string{
	"AccountService": "v1_15_0", "ActionInfo": "v1_4_0", "AttributeRegistry": "v1_3_8", "Bios": "v1_2_2", "BootOption": "v1_0_6",
	"Certificate": "v1_9_0", "CertificateLocations": "v1_0_3", "CertificateService": "v1_0_5",
	"Chassis": "v1_25_0", "ComputerSystem": "v1_22_0", "Drive": "v1_19_0", "EthernetInterface": "v1_12_0",
	"EventDestination": "v1_14_0", "EventService": "v1_10_0", "Fan": "v1_5_0",
	"Job": "v1_2_3", "JobService": "v1_0_4", "JsonSchemaFile": "v1_1_4", "LogEntry": "v1_16_0", "LogService": "v1_7_0",
	"Manager": "v1_19_0", "ManagerAccount": "v1_12_0", "ManagerNetworkProtocol": "v1_10_0", "Memory": "v1_19_0", "MessageRegistry": "v1_6_2", "MessageRegistryFile": "v1_1_4",
	"NetworkAdapter": "v1_11_0", "NetworkDeviceFunction": "v1_9_0", "PCIeDevice": "v1_14_0", "PCIeFunction": "v1_5_0", "Port": "v1_12_0",
	"Power": "v1_7_2", "PowerSubsystem": "v1_1_1", "PowerSupply": "v1_6_0", "Processor": "v1_20_0", "Role": "v1_3_2", "Sensor": "v1_9_0",
	"ServiceRoot": "v1_17_0", "Session": "v1_7_0", "SessionService": "v1_1_9", "SoftwareInventory": "v1_10_0", "Storage": "v1_16_0",
	"StorageController": "v1_8_0", "Task": "v1_7_3", "TaskService": "v1_2_1", "Thermal": "v1_7_2", "ThermalMetrics": "v1_3_1",
	"ThermalSubsystem": "v1_3_1", "UpdateService": "v1_13_0", "VirtualMedia": "v1_6_3", "Volume": "v1_10_0",
}
