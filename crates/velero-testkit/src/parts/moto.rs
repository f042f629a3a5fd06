//! moto: a stand-in for the API of Amazon EC2, in the store's machine. It checks signatures.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use super::{Door, Part, STORE_ADDRESS, StorePart};
use crate::machine::Machine;
use crate::test_box::STORE;
use crate::tool::Tool;

/// The region tests make volumes in.
pub const MOTO_REGION: &str = "us-east-1";
const PORT: u16 = 28336;

/// The requests moto takes from anybody; they make the account of the tests.
const OPENING_REQUESTS: &str = "3";

/// Makes the account where there is none, writes its keys as a credentials file, and shows that they are good.
const MAKE_ACCOUNT: &str = r#"
set -e
file=$1 address=$2
ask() { curl --silent --show-error --fail --max-time 20 --aws-sigv4 "aws:amz:us-east-1:$1" --user "$2" --data "$3" "$address"; }
iam() { ask iam none:none "Version=2010-05-08&UserName=velero&Action=$1"; }
if [ ! -s "$file" ]; then
  curl --silent --show-error --fail --max-time 5 --output /dev/null "$address/moto-api/"
  iam CreateUser > /dev/null
  keys=$(iam CreateAccessKey)
  iam 'PutUserPolicy&PolicyName=all&PolicyDocument={"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}' > /dev/null
  id=$(echo "$keys" | sed -n 's|.*<AccessKeyId>\([^<]*\)<.*|\1|p')
  secret=$(echo "$keys" | sed -n 's|.*<SecretAccessKey>\([^<]*\)<.*|\1|p')
  printf '[default]\naws_access_key_id=%s\naws_secret_access_key=%s\n' "$id" "$secret" > "$file"
fi
user=$(sed -n 's/^aws_access_key_id=//p' "$file"):$(sed -n 's/^aws_secret_access_key=//p' "$file")
ask ec2 "$user" "Version=2016-11-15&$3"
"#;

/// Makes a user with that policy, in the account of the tests, and prints its keys as a credentials file.
const MAKE_USER: &str = r#"
set -e
file=$1 address=$2 name=$3 policy=$4
user=$(sed -n 's/^aws_access_key_id=//p' "$file"):$(sed -n 's/^aws_secret_access_key=//p' "$file")
iam() {
  action=$1; shift
  curl --silent --show-error --fail --max-time 20 --aws-sigv4 aws:amz:us-east-1:iam --user "$user" \
    --data "Version=2010-05-08&UserName=$name&Action=$action" "$@" "$address"
}
iam CreateUser > /dev/null
keys=$(iam CreateAccessKey)
iam PutUserPolicy --data PolicyName=some --data-urlencode "PolicyDocument=$policy" > /dev/null
id=$(echo "$keys" | sed -n 's|.*<AccessKeyId>\([^<]*\)<.*|\1|p')
secret=$(echo "$keys" | sed -n 's|.*<SecretAccessKey>\([^<]*\)<.*|\1|p')
printf '[default]\naws_access_key_id=%s\naws_secret_access_key=%s\n' "$id" "$secret"
"#;

/// Makes a role with that policy, which everybody of the account may take, and prints its ARN.
const MAKE_ROLE: &str = r#"
set -e
file=$1 address=$2 name=$3 policy=$4
user=$(sed -n 's/^aws_access_key_id=//p' "$file"):$(sed -n 's/^aws_secret_access_key=//p' "$file")
iam() {
  action=$1; shift
  curl --silent --show-error --fail --max-time 20 --aws-sigv4 aws:amz:us-east-1:iam --user "$user" \
    --data "Version=2010-05-08&RoleName=$name&Action=$action" "$@" "$address"
}
trust='{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"*"},"Action":"sts:AssumeRole"}]}'
made=$(iam CreateRole --data-urlencode "AssumeRolePolicyDocument=$trust")
iam PutRolePolicy --data PolicyName=some --data-urlencode "PolicyDocument=$policy" > /dev/null
echo "$made" | tr -d '\n' | sed -n 's|.*<Arn>\([^<]*\)<.*|\1|p'
"#;

/// The stand-in for EC2, IAM and S3.
pub struct Moto;

impl Moto {
    /// Its address on this host's loopback.
    pub fn url() -> String {
        format!("http://127.0.0.1:{PORT}")
    }

    /// Its address inside every box.
    pub fn url_in_boxes() -> String {
        format!("http://{STORE_ADDRESS}:{PORT}")
    }

    /// The credentials of its one account, as a credentials file.
    pub fn credentials() -> Result<String> {
        let file = Self::credentials_file(&store()?)?;
        fs::read_to_string(&file).with_context(|| format!("{}: is moto started?", file.display()))
    }

    /// Makes a request, such as `Action=DescribeVolumes`, and gives the answer.
    pub fn ask(parameters: &str) -> Result<String> {
        Self::ask_in(&store()?, parameters)
    }

    /// Makes a volume of that type and gives its ID. Further parameters may say more about it.
    pub fn make_volume(volume_type: &str, further: &str) -> Result<String> {
        let place = format!("AvailabilityZone={MOTO_REGION}a&Size=1");
        let answer = Self::ask(&format!("Action=CreateVolume&{place}&VolumeType={volume_type}{further}"))?;
        texts(&answer, "volumeId").pop().with_context(|| format!("no volume was made: {answer}"))
    }

    /// The IDs of the snapshots of a volume.
    pub fn snapshots_of(volume_id: &str) -> Result<Vec<String>> {
        let filter = format!("Filter.1.Name=volume-id&Filter.1.Value.1={volume_id}");
        Ok(texts(&Self::ask(&format!("Action=DescribeSnapshots&{filter}"))?, "snapshotId"))
    }

    /// Makes a user with a policy, in JSON, and gives its credentials file.
    pub fn make_user(name: &str, policy: &str) -> Result<String> {
        let machine = store()?;
        let file = Self::credentials_file(&machine)?.display().to_string();
        let address = format!("http://{STORE_ADDRESS}:{PORT}");
        machine.run("sh", ["-c", MAKE_USER, "sh", &file, &address, name, policy])
    }

    /// Makes a role with a policy, in JSON, and gives its ARN.
    pub fn make_role(name: &str, policy: &str) -> Result<String> {
        let machine = store()?;
        let file = Self::credentials_file(&machine)?.display().to_string();
        let address = format!("http://{STORE_ADDRESS}:{PORT}");
        let arn = machine.run("sh", ["-c", MAKE_ROLE, "sh", &file, &address, name, policy])?;
        Ok(arn.trim().to_owned())
    }

    fn ask_in(machine: &Machine, parameters: &str) -> Result<String> {
        let file = Self::credentials_file(machine)?.display().to_string();
        let address = format!("http://{STORE_ADDRESS}:{PORT}");
        machine.run("sh", ["-c", MAKE_ACCOUNT, "sh", &file, &address, parameters])
    }

    fn credentials_file(machine: &Machine) -> Result<PathBuf> {
        Ok(machine.folder("moto")?.join("credentials"))
    }
}

/// The texts of all elements of that name.
pub(crate) fn texts(xml: &str, name: &str) -> Vec<String> {
    let begin = format!("<{name}>");
    let elements = xml.split(&begin).skip(1);
    elements.filter_map(|rest| rest.split_once('<')).map(|(text, _)| text.to_owned()).collect()
}

fn store() -> Result<Machine> {
    Machine::find(STORE).context("the store is not up: bring a box up first")
}

impl Part for Moto {
    fn name(&self) -> &'static str {
        "moto"
    }

    fn install(&self) -> Result<()> {
        Tool::Moto.path().map(drop)
    }

    fn start(&self, machine: &Machine) -> Result<()> {
        // The account went with the process before.
        let _ = fs::remove_file(Self::credentials_file(machine)?);
        let mut shell = machine.command("sh");
        shell.env("INITIAL_NO_AUTH_ACTION_COUNT", OPENING_REQUESTS);
        let arguments = ["-m", "moto.server", "-H", "0.0.0.0", "-p"].map(str::to_owned);
        let arguments = arguments.into_iter().chain([PORT.to_string()]);
        machine.start_command(self.name(), shell, Tool::Moto.path()?, arguments)
    }

    fn check(&self, machine: &Machine) -> Result<()> {
        let answer = Self::ask_in(machine, "Action=DescribeVolumes")?;
        ensure!(answer.contains("DescribeVolumesResponse"), "it answers {answer}");
        Ok(())
    }
}

impl StorePart for Moto {
    fn door(&self) -> Door {
        Door::new("moto-door", PORT, format!("{STORE_ADDRESS}:{PORT}"))
    }
}
