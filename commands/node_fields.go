package commands

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// NodeFields are the fields of a node that clients set, by Ironic's names. Absent
// and null mean the same.
type NodeFields struct {
	Name          *string         `json:"name,omitempty"`           // unique, 1..255 of A-Z a-z 0-9 - . _ ~, not like a uuid
	Driver        *string         `json:"driver,omitempty"`         // of a new node it is required
	ResourceClass *string         `json:"resource_class,omitempty"` // 1..80 characters
	Owner         *string         `json:"owner,omitempty"`
	Lessee        *string         `json:"lessee,omitempty"`
	InstanceUUID  *ledger.UUID    `json:"instance_uuid,omitempty"`
	Maintenance   *bool           `json:"maintenance,omitempty"`
	Protected     *bool           `json:"protected,omitempty"`
	Properties    ledger.Document `json:"properties,omitzero"`
	Extra         ledger.Document `json:"extra,omitzero"`
	// DriverInfo and InstanceInfo are stored without secrets, which Allot does
	// not need because it contacts no hardware.
	DriverInfo   ledger.Document `json:"driver_info,omitzero"`
	InstanceInfo ledger.Document `json:"instance_info,omitzero"`

	NodeDetails
}

// NodeDetails are fields that Allot only stores for clients.
type NodeDetails struct {
	AutomatedClean      *bool           `json:"automated_clean,omitempty"`
	BIOSInterface       *string         `json:"bios_interface,omitempty"`
	BootInterface       *string         `json:"boot_interface,omitempty"`
	ChassisUUID         *ledger.UUID    `json:"chassis_uuid,omitempty"` // an existing chassis
	ConductorGroup      *string         `json:"conductor_group,omitempty"`
	ConsoleInterface    *string         `json:"console_interface,omitempty"`
	DeployInterface     *string         `json:"deploy_interface,omitempty"`
	Description         *string         `json:"description,omitempty"`
	FirmwareInterface   *string         `json:"firmware_interface,omitempty"`
	InspectInterface    *string         `json:"inspect_interface,omitempty"`
	ManagementInterface *string         `json:"management_interface,omitempty"`
	NetworkData         ledger.Document `json:"network_data,omitzero"`
	NetworkInterface    *string         `json:"network_interface,omitempty"`
	ParentNode          *ledger.UUID    `json:"parent_node,omitempty"` // an existing node
	PowerInterface      *string         `json:"power_interface,omitempty"`
	ProtectedReason     *string         `json:"protected_reason,omitempty"`
	RAIDInterface       *string         `json:"raid_interface,omitempty"`
	RescueInterface     *string         `json:"rescue_interface,omitempty"`
	Retired             *bool           `json:"retired,omitempty"`
	RetiredReason       *string         `json:"retired_reason,omitempty"`
	Shard               *string         `json:"shard,omitempty"`
	StorageInterface    *string         `json:"storage_interface,omitempty"`
	VendorInterface     *string         `json:"vendor_interface,omitempty"`
}

// fieldsOf returns the fields that clients have set on a node.
func fieldsOf(n *ledger.Node) (NodeFields, error) {
	f := NodeFields{
		Name: orNil(n.Name), Driver: orNil(n.Driver), ResourceClass: orNil(n.ResourceClass),
		Owner: orNil(n.Owner), Lessee: orNil(n.Lessee),
		Maintenance: &n.Maintenance, Protected: &n.Protected,
		Properties: n.Properties, Extra: n.Extra, DriverInfo: n.DriverInfo, InstanceInfo: n.InstanceInfo,
	}
	if !n.Instance.IsNil() {
		f.InstanceUUID = &n.Instance
	}
	return f, json.Unmarshal([]byte(n.Details.Text()), &f.NodeDetails)
}

func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// description returns the part of the fields that makes up the node's
// description.
func (f *NodeFields) description() (ledger.NodeDescription, *demand.Rejection) {
	details, err := f.details()
	if err != nil {
		return ledger.NodeDescription{}, demand.Invalid("details", "%v", err)
	}
	driverInfo, err := WithoutSecrets(f.DriverInfo)
	if err != nil {
		return ledger.NodeDescription{}, demand.Invalid("driver_info", "%v", err)
	}
	instanceInfo, err := WithoutSecrets(f.InstanceInfo)
	if err != nil {
		return ledger.NodeDescription{}, demand.Invalid("instance_info", "%v", err)
	}
	return ledger.NodeDescription{
		Name: deref(f.Name), Driver: deref(f.Driver), ResourceClass: deref(f.ResourceClass),
		Owner: deref(f.Owner), Lessee: deref(f.Lessee), Protected: deref(f.Protected),
		Properties: f.Properties, Extra: f.Extra, DriverInfo: driverInfo, InstanceInfo: instanceInfo,
		Details: details,
	}, nil
}

// details returns a document of those details that are set.
func (f *NodeFields) details() (ledger.Document, error) {
	text, err := json.Marshal(f.NodeDetails)
	if err != nil {
		return "", err
	}
	all, err := ledger.Document(text).Object()
	if err != nil {
		return "", err
	}
	for key, value := range all {
		if object, isObject := value.(map[string]any); value == nil || isObject && len(object) == 0 {
			delete(all, key)
		}
	}
	return ledger.NewDocument(all)
}

// Mask replaces a secret in the log.
const Mask = "******"

var secretKey = regexp.MustCompile(`(?i)passw|(admin|_)pass\b|passphrase|pswd|secret|token|credential|private_?key|configdrive`)

// WithoutSecrets masks values that look like secrets, because the log never
// forgets.
func WithoutSecrets(doc ledger.Document) (ledger.Document, error) {
	if !secretKey.MatchString(string(doc)) {
		return doc, nil
	}
	object, err := doc.Object()
	if err != nil {
		return "", err
	}
	maskSecrets(object)
	return ledger.NewDocument(object)
}

func maskSecrets(value any) {
	switch value := value.(type) {
	case []any:
		for _, one := range value {
			maskSecrets(one)
		}
	case map[string]any:
		for key, one := range value {
			if _, isObject := one.(map[string]any); !isObject && secretKey.MatchString(key) {
				value[key] = Mask
			} else {
				maskSecrets(one)
			}
		}
	}
}

// Masked returns a command without the secrets of nodes in it, for who keeps what was rejected.
func Masked(c Command) (_ Command, err error) {
	switch c := c.(type) {
	case *Batch:
		masked := &Batch{}
		for _, one := range c.Commands {
			part, failed := Masked(one)
			masked.Commands, err = append(masked.Commands, part), errors.Join(err, failed)
		}
		return masked, err
	case *CreateNode:
		masked := *c
		var other error
		masked.DriverInfo, err = WithoutSecrets(c.DriverInfo)
		masked.InstanceInfo, other = WithoutSecrets(c.InstanceInfo)
		return &masked, errors.Join(err, other)
	case *UpdateNode:
		masked := &UpdateNode{Node: c.Node, Patch: slices.Clone(c.Patch)}
		for i := range masked.Patch {
			err = errors.Join(err, masked.Patch[i].mask())
		}
		return masked, err
	}
	return c, nil
}

var (
	identPattern = regexp.MustCompile(`^[A-Za-z0-9\-._~]+$`)
	uuidPattern  = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
)

// reservedNodeNames are words that Ironic's paths use in the place of a node's
// name.
var reservedNodeNames = []string{
	"maintenance", "management", "states", "vendor_passthru", "detail", "ports", "portgroups", "volume", "traits",
	"vifs", "bios", "allocation", "history", "inventory", "firmware", "validate", "virtual_media",
}

// IsIdent reports whether a text can name a node or a node allocation
// (Ironic's valid logical names).
func IsIdent(name string) bool {
	return len(name) <= ledger.MaxNodeNameBytes && identPattern.MatchString(name)
}

// IsNodeName reports whether a text can name a node.
func IsNodeName(name string) bool {
	return IsIdent(name) && !uuidPattern.MatchString(name) && !slices.Contains(reservedNodeNames, name)
}

func checkNodeName(name *string) *demand.Rejection {
	if name != nil && !IsNodeName(*name) {
		return demand.Refuse(
			demand.CodeInvalid, demand.Facts{Field: "name", Name: *name}, "name: %q cannot name a node", *name,
		)
	}
	return nil
}

// Check returns a rejection for faults in the fields alone, whatever the State;
// or nil.
func (f *NodeFields) check() *demand.Rejection {
	short := func(field string, value *string, most int) *demand.Rejection {
		if value != nil && (utf8.RuneCountInString(*value) > most || !utf8.ValidString(*value)) {
			return demand.Invalid(field, "takes at most %d characters of valid UTF-8", most)
		}
		return nil
	}
	if deref(f.Driver) == "" {
		return demand.Invalid("driver", "is required")
	}
	return cmp.Or(
		checkNodeName(f.Name),
		short("driver", f.Driver, ledger.MaxOwnerRunes), short("resource_class", f.ResourceClass, ledger.MaxNodeClassRunes),
		short("owner", f.Owner, ledger.MaxOwnerRunes), short("lessee", f.Lessee, ledger.MaxOwnerRunes),
		short("description", f.Description, 4096), short("protected_reason", f.ProtectedReason, 4096),
		short("retired_reason", f.RetiredReason, 4096),
	)
}

// checkNew rejects fields that cannot be set when a node is made.
func (f *NodeFields) checkNew(id ledger.UUID, state string) *demand.Rejection {
	if deref(f.Protected) || deref(f.ProtectedReason) != "" {
		return demand.Invalid("protected",
			"Cannot specify protected or protected_reason on node creation. These fields can only be set for active nodes")
	}
	return f.settleFlags(&ledger.Node{UUID: id, ProvisionState: state})
}

// settleFlags applies Ironic's rules for the two flags of a node: only a deployed
// node can be protected, an available node cannot be retired, and the reason for
// a flag needs the flag and is removed with it.
func (f *NodeFields) settleFlags(before *ledger.Node) *demand.Rejection {
	if deref(f.Protected) && !before.Protected && before.ProvisionState != stateActive {
		return nodeState(
			before, "Node %s can not have protected set in provision state %s, allowed states are 'active' and 'rescue'",
			before.UUID, before.ProvisionState,
		)
	}
	if deref(f.Retired) && !before.Retired() && before.ProvisionState == ledger.NodeAvailable {
		return nodeState(
			before, "Node %s can not have 'retired' set in provision state 'available', the node must be manageable first",
			before.UUID,
		)
	}
	return cmp.Or(settleReason("protected", before.Protected, deref(f.Protected), &f.ProtectedReason),
		settleReason("retired", before.Retired(), deref(f.Retired), &f.RetiredReason))
}

// checkParent requires a node's parent to be another existing node that is no
// child itself.
func (f *NodeFields) checkParent(s *ledger.State, id ledger.UUID) *demand.Rejection {
	if f.ParentNode == nil {
		return nil
	}
	parent, exists := s.Node(*f.ParentNode)
	if !exists {
		return nodeUnknown(*f.ParentNode)
	}
	if parent.UUID == id || parent.Parent() != "" {
		return demand.Invalid(
			"parent_node", "node %s cannot be the parent of %s: it is the node itself, or has a parent", parent.UUID, id,
		)
	}
	return nil
}

func (f *NodeFields) checkChassis(s *ledger.State) *demand.Rejection {
	id := deref(f.ChassisUUID)
	if _, exists := s.Chassis(id); !exists && f.ChassisUUID != nil {
		return chassisNotFound(demand.CodeChassisUnknown, id)
	}
	return nil
}

func settleReason(flag string, before, after bool, reason **string) *demand.Rejection {
	if before && !after {
		*reason = nil
	}
	if !after && deref(*reason) != "" {
		return demand.Invalid(flag+"_reason", "The %s_reason field can only be set when %s is True", flag, flag)
	}
	return nil
}

// checkTraits rejects traits that neither begin with CUSTOM_ nor are standard.
func checkTraits(s *ledger.State, field string, traits []string) *demand.Rejection {
	for _, name := range traits {
		if !isCustom(name) && (strings.HasPrefix(name, CustomPrefix) || !s.HasTrait(name)) {
			return demand.Refuse(demand.CodeInvalid, demand.Facts{Field: field, Name: name},
				"%s: %q is neither a standard trait nor a custom one", field, name)
		}
	}
	return nil
}

func nodeNotFound(id ledger.UUID) *demand.Rejection {
	return demand.Refuse(demand.CodeNodeNotFound, demand.Facts{Node: &id}, "no node %s", id)
}

func nodeUnknown(ids ...ledger.UUID) *demand.Rejection {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = id.String()
	}
	return demand.Refuse(demand.CodeNodeUnknown, demand.Facts{Names: names}, "no node %s", strings.Join(names, ", "))
}

func nodeExists(format, name string) *demand.Rejection {
	return demand.Refuse(demand.CodeNodeExists, demand.Facts{Name: name}, format, name)
}

func nodeAssociated(n *ledger.Node) *demand.Rejection {
	return demand.Refuse(demand.CodeNodeAssociated, demand.Facts{Node: &n.UUID, Instance: &n.Instance},
		"Node %s is associated with instance %s.", n.UUID, n.Instance)
}

func instanceAssociated(instance, node ledger.UUID) *demand.Rejection {
	return demand.Refuse(demand.CodeInstanceAssociated, demand.Facts{Node: &node, Instance: &instance},
		"%s", instanceElsewhere(instance, node))
}

func instanceElsewhere(instance, node ledger.UUID) string {
	return fmt.Sprintf(
		"Instance %s is already associated with a node, it cannot be associated with this other node %s", instance, node,
	)
}
