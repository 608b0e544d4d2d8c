package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"
)

// walk reads a machine as one writes it first: every list by its typed call,
// one after the other. It does what an inspection is for, and with it what a
// client of this kind reads to know the machine: boot options, virtual media,
// accounts, events and tasks. What a call fails at is left out, and the walk
// goes on. The error says that there was no walk at all.
func walk(url string, ca []byte, user, password string) error {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return errors.New("the lab's authority cannot be read")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	c, err := gofish.Connect(gofish.ClientConfig{Endpoint: url, Username: user, Password: password, HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		return err
	}
	defer c.Logout()
	systems, err := c.Service.Systems()
	for _, s := range systems {
		walkSystem(s)
	}
	walkServices(c.Service)
	return err
}

// list is what a typed call gives, as far as it gives something.
func list[T any](all []T, _ error) []T { return all }

func walkSystem(s *schemas.ComputerSystem) {
	s.Bios()
	s.SecureBoot()
	s.BootOptions()
	s.Processors()
	s.Memory()
	s.EthernetInterfaces()
	s.NetworkInterfaces()
	s.PCIeDevices()
	for _, storage := range list(s.Storage()) {
		storage.Drives()
		storage.Volumes()
	}
}

func walkServices(service *gofish.Service) {
	for _, m := range list(service.Managers()) {
		m.EthernetInterfaces()
		m.VirtualMedia()
	}
	for _, c := range list(service.Chassis()) {
		c.Power()
		c.Thermal()
		for _, a := range list(c.NetworkAdapters()) {
			a.NetworkPorts()
			a.Ports()
			a.NetworkDeviceFunctions()
		}
	}
	if update, err := service.UpdateService(); err == nil && update != nil {
		update.FirmwareInventory()
	}
	service.EventService()
	if accounts, err := service.AccountService(); err == nil && accounts != nil {
		accounts.Accounts()
	}
	if tasks, err := service.Tasks(); err == nil && tasks != nil {
		tasks.Tasks()
	}
}
