//! A proxy in front of the page says who asks: with its certificate, and not without.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use velero_api::v1::Backup;
use velero_controllers::server::{Settings, WebSettings};
use velero_testkit::{TestCluster, cluster_test};

use crate::support::{Server, settings};
use crate::web_support::{Browser, People};

/// Two authorities, each with a certificate for the page and one for a proxy.
const SCRIPT: &str = r#"
set -e
cd "$1"
key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1"; }
for authority in own foreign; do
  key $authority-ca.key
  openssl req -x509 -new -key $authority-ca.key -days 2 -subj /CN=$authority -out $authority-ca.crt
  for name in page proxy; do
    key $authority-$name.key
    openssl req -new -key $authority-$name.key -subj /CN=$name -out $name.csr
    printf 'basicConstraints=CA:FALSE\nsubjectAltName=DNS:localhost\n' > names.conf
    openssl x509 -req -in $name.csr -CA $authority-ca.crt -CAkey $authority-ca.key -CAcreateserial -days 2 -extfile names.conf -out $authority-$name.crt
  done
done
"#;

/// How a proxy, or a browser that shows no certificate, encrypts.
fn client(folder: &Path, certificate: Option<&str>) -> Arc<ClientConfig> {
    let read = |name: &str| CertificateDer::from_pem_file(folder.join(name)).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(read("own-ca.crt")).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    Arc::new(match certificate {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let key = PrivateKeyDer::from_pem_file(folder.join(format!("{authority}-proxy.key"))).unwrap();
            builder.with_client_auth_cert(vec![read(&format!("{authority}-proxy.crt"))], key).unwrap()
        }
    })
}

fn web_settings(folder: &Path) -> WebSettings {
    let file = |name: &str| -> Option<PathBuf> { Some(folder.join(name)) };
    WebSettings {
        web_tls_cert: file("own-page.crt"),
        web_tls_key: file("own-page.key"),
        web_client_ca: file("own-ca.crt"),
        web_trusted_user_header: Some("X-Forwarded-User".to_owned()),
        web_trusted_groups_header: Some("X-Forwarded-Groups".to_owned()),
    }
}

/// A server that trusts a proxy, and people who come through it.
struct Scene {
    folder: tempfile::TempDir,
    address: String,
    server: Server,
    people: People,
}

impl Scene {
    async fn begin(cluster: &TestCluster) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = Command::new("sh").args(["-c", SCRIPT, "sh"]).arg(folder.path()).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        let web = web_settings(folder.path());
        let settings = Settings { web_address: address.clone(), web, ..settings(cluster) };
        let server = Server::start_with(cluster.clone(), settings).await;
        let people = People::make(cluster);
        people.kubectl("create rolebinding anna --role=viewer --user=anna");
        people.kubectl("create rolebinding ops --role=operator --group=ops");
        Self { folder, address, server, people }
    }

    /// A browser whose requests come through somebody with a certificate of an authority, or with none.
    fn through(&self, authority: Option<&str>, added: &[(&'static str, &'static str)]) -> Browser {
        Browser::new(&self.address).behind(client(self.folder.path(), authority), added)
    }

    fn proxied(&self, added: &[(&'static str, &'static str)]) -> Browser {
        self.through(Some("own"), added)
    }

    async fn end(self) {
        self.people.remove();
        self.server.stop().await;
    }
}

const CARL: [(&str, &str); 2] = [("X-Forwarded-User", "carl"), ("X-Forwarded-Groups", "dev, ops")];

#[test]
fn a_proxy_with_its_certificate_says_who_asks() {
    cluster_test(|cluster| async move {
        let scene = Scene::begin(&cluster).await;
        let mut anna = scene.proxied(&[("X-Forwarded-User", "anna")]);
        let page = anna.get("/backups").await;
        assert_eq!(page.code, 200, "{}", page.body);
        assert!(page.body.contains("anna") && !page.body.contains("Sign out"), "{}", page.body);
        let refused = anna.get("/new-backup").await;
        assert_eq!(refused.code, 403, "{}", refused.body);
        assert!(refused.body.contains("anna may not create backups.velero.io"), "{}", refused.body);
        assert_eq!(scene.proxied(&[("X-Forwarded-User", "bert")]).get("/backups").await.code, 403, "without rights");

        // Groups count, and so do the tokens of forms: each person has one of its own.
        let mut carl = scene.proxied(&CARL);
        let form = carl.get("/new-backup").await;
        assert_eq!(form.code, 200, "{}", form.body);
        let token = form.form_token();
        let mut dora = scene.proxied(&[("X-Forwarded-User", "dora"), ("X-Forwarded-Groups", "ops")]);
        let fields = [("form-token", token.as_str()), ("name", "by-proxy"), ("do", "create")];
        assert_eq!(dora.post("/new-backup", &fields).await.code, 403, "the form of somebody else");
        assert_eq!(carl.post("/new-backup", &fields).await.code, 303);
        assert!(scene.server.api::<Backup>().get_opt("by-proxy").await.unwrap().is_some());

        for added in [
            &[("X-Forwarded-User", "system:admin")][..],
            &[("X-Forwarded-User", "anna"), ("X-Forwarded-Groups", "system:masters")],
            &[("X-Forwarded-User", "anna"), ("X-Forwarded-User", "carl")],
        ] {
            let refused = scene.proxied(added).get("/backups").await;
            assert_eq!(refused.code, 422, "{added:?}\n{}", refused.body);
        }
        let nobody = scene.proxied(&[("X-Forwarded-Groups", "ops")]).get("/backups").await;
        assert_eq!(nobody.code, 303, "nobody is named");
        scene.end().await;
    });
}

#[test]
fn without_the_certificate_of_the_proxy_headers_mean_nothing_and_a_token_still_does() {
    cluster_test(|cluster| async move {
        let scene = Scene::begin(&cluster).await;
        let mut stranger = scene.through(None, &CARL);
        let page = stranger.get("/backups").await;
        assert_eq!((page.code, page.header("location")), (303, Some("/sign-in")), "{}", page.body);
        let signed = stranger.post("/sign-in", &[("token", &scene.people.token("viewer"))]).await;
        assert_eq!(signed.code, 303, "{}", signed.body);
        let page = stranger.get("/backups").await.body;
        assert!(page.contains(":viewer") && !page.contains("carl"), "{page}");
        let mut foreign = scene.through(Some("foreign"), &CARL);
        assert!(foreign.try_send("GET", "/backups", &[], "").await.is_err(), "the certificate of another authority");
        let mut plain = Browser::new(&scene.address);
        assert!(plain.try_send("GET", "/backups", &[], "").await.is_err(), "nothing goes in the clear");
        scene.end().await;
    });
}
